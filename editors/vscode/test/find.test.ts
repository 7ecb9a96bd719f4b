import assert from "node:assert/strict";
import { test } from "node:test";

import { expand, findServer, isFound, isOurVersion, type Wishes, type World } from "../src/find";
import { notFound } from "../src/install";

const NOTHING: Wishes = { path: "", interpreter: "", selected: undefined, folder: undefined };

/** A machine that has these files, and gradlint as a module in these Pythons; some programs are others of that name. */
function world(files: string[], modules: string[] = [], more: Partial<World> = {}, foreign: string[] = []): World {
  return {
    windows: false,
    home: "/home/ada",
    env: { PATH: "/usr/local/bin:/usr/bin" },
    isFile: (file) => files.includes(file),
    isOurs: ({ command, args }) =>
      Promise.resolve(args.length > 0 ? modules.includes(command) : files.includes(command) && !foreign.includes(command)),
    ...more,
  };
}

async function line(wishes: Partial<Wishes>, machine: World): Promise<string | undefined> {
  const found = await findServer({ ...NOTHING, ...wishes }, machine);
  return isFound(found) ? [found.command, ...found.args].join(" ") : undefined;
}

test("the program beside the selected Python goes before the one on the PATH", async () => {
  const machine = world(["/env/bin/python", "/env/bin/gradlint", "/usr/bin/gradlint"]);
  assert.equal(await line({ selected: "/env/bin/python" }, machine), "/env/bin/gradlint");
});

test("a selected Python with the module and no program starts the module", async () => {
  const machine = world(["/env/bin/python", "/usr/bin/gradlint"], ["/env/bin/python"]);
  assert.equal(await line({ selected: "/env/bin/python" }, machine), "/env/bin/python -m torch_gradlint");
});

test("a selected Python without gradlint leaves it to the PATH", async () => {
  const machine = world(["/env/bin/python", "/usr/bin/gradlint"]);
  assert.equal(await line({ selected: "/env/bin/python" }, machine), "/usr/bin/gradlint");
});

test("a selected Python that was deleted leaves it to the workspace's environment", async () => {
  const machine = world(["/work/.venv/bin/python", "/work/.venv/bin/gradlint", "/usr/bin/gradlint"]);
  assert.equal(await line({ selected: "/env/bin/python", folder: "/work" }, machine), "/work/.venv/bin/gradlint");
});

test("the PATH is searched in its order, and its empty entries mean nothing", async () => {
  const machine = world(["gradlint", "/a/gradlint", "/b/gradlint"], [], { env: { PATH: ":/a:/b" } });
  assert.equal(await line({}, machine), "/a/gradlint");
});

test("the last way is a Python on the PATH that has the module", async () => {
  const machine = world(["/usr/bin/python3", "/usr/bin/python"], ["/usr/bin/python"]);
  assert.equal(await line({}, machine), "/usr/bin/python -m torch_gradlint");
});

test("where there is nothing, it says what was tried", async () => {
  const found = await findServer({ ...NOTHING, selected: "/env/bin/python" }, world(["/env/bin/python"]));
  assert.ok(!isFound(found));
  assert.deepEqual(found.tried, [
    "/env/bin/torch-gradlint",
    "/env/bin/gradlint",
    "/env/bin/python -m torch_gradlint",
    "torch-gradlint on the PATH",
    "gradlint on the PATH",
    "python3 -m torch_gradlint",
    "python -m torch_gradlint",
  ]);
});

test("the name that is only ours goes first", async () => {
  const machine = world(["/env/bin/python", "/env/bin/gradlint", "/env/bin/torch-gradlint"]);
  assert.equal(await line({ selected: "/env/bin/python" }, machine), "/env/bin/torch-gradlint");
  assert.equal(await line({}, world(["/usr/bin/gradlint", "/usr/bin/torch-gradlint"])), "/usr/bin/torch-gradlint");
});

test("another program of the same name is not started, and is named", async () => {
  const theirs = "/env/bin/gradlint";
  const machine = world(["/env/bin/python", theirs, "/usr/bin/gradlint"], [], {}, [theirs]);
  assert.equal(await line({ selected: "/env/bin/python" }, machine), "/usr/bin/gradlint");
  const alone = world(["/env/bin/python", theirs], [], {}, [theirs]);
  const found = await findServer({ ...NOTHING, selected: "/env/bin/python" }, alone);
  assert.ok(!isFound(found));
  assert.deepEqual(found.foreign, [theirs]);
  assert.match(notFound(found, "linux"), /another program that is called gradlint.*pip install "torch-gradlint\[lsp\]"/);
});

test("versions tell whose program it is", () => {
  assert.ok(isOurVersion("gradlint, version 0.1.0\n"));
  assert.ok(!isOurVersion("gradlint 1.1.7 (core 1.1.7)\n"));
  assert.ok(!isOurVersion(undefined));
});

test("gradlint.path is taken, and nothing else instead of it", async () => {
  const machine = world(["/home/ada/bin/gradlint", "/usr/bin/gradlint"]);
  assert.equal(await line({ path: "~/bin/gradlint" }, machine), "/home/ada/bin/gradlint");
  assert.equal(await line({ path: "/opt/gradlint" }, machine), undefined);
});

test("gradlint.path may be a bare name or be relative to the workspace", async () => {
  const machine = world(["/usr/bin/gradlint-dev", "/work/tools/gradlint"]);
  assert.equal(await line({ path: "gradlint-dev" }, machine), "/usr/bin/gradlint-dev");
  assert.equal(await line({ path: "tools/gradlint", folder: "/work" }, machine), "/work/tools/gradlint");
});

test("gradlint.interpreter starts the module there", async () => {
  const machine = world(["/env/bin/python", "/usr/bin/gradlint"]);
  assert.equal(await line({ interpreter: "/env/bin/python" }, machine), "/env/bin/python -m torch_gradlint");
  assert.equal(await line({ interpreter: "/gone/python" }, machine), undefined);
});

test("variables are replaced as VS Code does, and their values are not read again", () => {
  const machine = world([], [], { env: { WHERE: "$&" } });
  assert.equal(expand(" ${workspaceFolder}/x/${env:WHERE}/${env:NONE} ", "/w$1", machine), "/w$1/x/$&/");
  assert.equal(expand("a~b", undefined, machine), "a~b");
});

test("Windows: Scripts, .exe and semicolons; the shop's python.exe is none", async () => {
  const windows = { windows: true, home: "C:\\Users\\Ada" };
  const env = { Path: "C:\\Users\\Ada\\AppData\\Local\\Microsoft\\WindowsApps;C:\\Python" };
  const files = ["C:\\env\\Scripts\\python.exe", "C:\\env\\Scripts\\gradlint.exe"];
  assert.equal(await line({ selected: files[0] }, world(files, [], { ...windows, env })), files[1]);
  const conda = ["C:\\conda\\python.exe", "C:\\conda\\Scripts\\gradlint.exe"];
  assert.equal(await line({ selected: conda[0] }, world(conda, [], { ...windows, env })), conda[1]);
  const pythons = ["C:\\Users\\Ada\\AppData\\Local\\Microsoft\\WindowsApps\\python.exe", "C:\\Python\\python.exe"];
  const found = await line({}, world(pythons, pythons, { ...windows, env }));
  assert.equal(found, "C:\\Python\\python.exe -m torch_gradlint");
});
