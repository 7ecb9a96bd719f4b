// Bundles the extension into dist/, or, with --tests, each test into out/.
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const common = { absWorkingDir: root, bundle: true, platform: "node", target: "node20", logLevel: "warning" };

if (process.argv.includes("--tests")) {
  rmSync(join(root, "out"), { recursive: true, force: true });
  const tests = readdirSync(join(root, "test")).filter((name) => name.endsWith(".ts"));
  await build({ ...common, entryPoints: tests.map((name) => `test/${name}`), outdir: "out", format: "cjs" });
} else {
  rmSync(join(root, "dist"), { recursive: true, force: true });
  const result = await build({
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    format: "cjs",
    external: ["vscode"],
    minify: true,
    legalComments: "none", // the notices of all packages are in one file, which scripts/package.mjs makes
    metafile: true,
  });
  writeFileSync(join(root, "dist", "inputs.json"), JSON.stringify(Object.keys(result.metafile.inputs).sort()));
}
