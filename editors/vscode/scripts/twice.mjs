// Builds and packages twice, from nothing, and compares the bytes.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const { name, version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const file = join(root, `${name}-${version}.vsix`);

function made() {
  rmSync(join(root, "dist"), { recursive: true, force: true });
  rmSync(file, { force: true });
  for (const script of ["build.mjs", "package.mjs"]) {
    execFileSync(process.execPath, [join(root, "scripts", script)], { stdio: ["ignore", "ignore", "inherit"] });
  }
  return readFileSync(file);
}

const [first, second] = [made(), made()];
if (!first.equals(second)) {
  console.error("two builds of the same sources differ");
  process.exit(1);
}
console.log(`the same twice: ${first.length} bytes, sha256 ${createHash("sha256").update(first).digest("hex")}`);
