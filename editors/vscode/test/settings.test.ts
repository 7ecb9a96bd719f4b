import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { installCommand, reasonFrom } from "../src/install";
import { readSettings, RESTARTING, serverOptions } from "../src/settings";

const manifest = JSON.parse(readFileSync("package.json", "utf8"));
const properties: Record<string, { default: unknown }> = manifest.contributes.configuration.properties;
const names = Object.keys(properties).map((key) => key.replace("gradlint.", ""));

function read(chosen: Record<string, unknown>) {
  return readSettings({ get: (key) => (key in chosen ? chosen[key] : properties[`gradlint.${key}`]?.default) });
}

test("the defaults leave everything to the configuration of the project", () => {
  assert.deepEqual(serverOptions(read({})), { enable: true, run: "onType" });
});

test("every setting of the manifest is read, and no other", () => {
  const asked: string[] = [];
  readSettings({ get: (key) => void asked.push(key) });
  assert.deepEqual(asked.sort(), [...names].sort());
});

test("what is chosen is told to the server, where it was found is not", () => {
  const chosen = { path: "/p", interpreter: "/i", args: ["-v"], preset: "strict", select: ["GL2"], ignore: ["GL201"] };
  assert.deepEqual(serverOptions(read({ ...chosen, unsafeFixes: false, run: "onSave" })), {
    enable: true,
    run: "onSave",
    preset: "strict",
    select: ["GL2"],
    ignore: ["GL201"],
    unsafeFixes: false,
  });
});

test("values of the wrong type count as not chosen", () => {
  assert.deepEqual(read({ select: "GL2", unsafeFixes: "yes", run: 3, path: null }), read({}));
});

test("settings that restart the server exist", () => {
  assert.deepEqual(RESTARTING.filter((key) => !names.includes(key)), []);
});

test("the README tells of every setting and command, with its default", () => {
  const readme = readFileSync("README.md", "utf8");
  for (const [key, { default: value }] of Object.entries(properties)) {
    const shown = value === "" ? "" : ` \`${typeof value === "string" ? value : JSON.stringify(value)}\``;
    assert.ok(readme.includes(`| \`${key}\` |${shown} |`), key);
  }
  for (const command of manifest.contributes.commands) {
    assert.ok(readme.includes(`| ${command.category}: ${command.title} |`), command.command);
  }
});

test("how to install it", () => {
  assert.equal(installCommand(undefined, "linux"), 'pip install "torch-gradlint[lsp]"');
  assert.equal(installCommand("/env/bin/python", "linux"), '/env/bin/python -m pip install "torch-gradlint[lsp]"');
  assert.equal(installCommand("/my env/python", "linux"), '"/my env/python" -m pip install "torch-gradlint[lsp]"');
  assert.equal(
    installCommand("C:\\My Env\\python.exe", "win32"),
    '& "C:\\My Env\\python.exe" -m pip install "torch-gradlint[lsp]"',
  );
});

test("the reason is the error that was named, else the last line", () => {
  assert.equal(reasonFrom(["Traceback …", '  File "x"', "ImportError: no", ""]), "ImportError: no");
  assert.equal(reasonFrom(["Error: install it", "bye"]), "Error: install it");
  assert.equal(reasonFrom(["one", "two"]), "two");
  assert.equal(reasonFrom([]), "it did not say why.");
});
