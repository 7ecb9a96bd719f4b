/** Which program to start: decided here from facts, so that it can be tested without an editor and without a disk. */

import * as path from "node:path";

export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  /** How it was found, for the output. */
  readonly origin: string;
}

export interface NotFound {
  readonly tried: readonly string[];
  /** Programs that are called gradlint, and are something else. */
  readonly foreign: readonly string[];
}

export interface Wishes {
  /** `gradlint.path` */
  readonly path: string;
  /** `gradlint.interpreter` */
  readonly interpreter: string;
  /** The Python that the Python extension has selected, if it is there. */
  readonly selected: string | undefined;
  /** The first folder of the workspace. */
  readonly folder: string | undefined;
}

/** What is asked of the machine. */
export interface World {
  readonly windows: boolean;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  isFile(file: string): boolean;
  /** Whether the program is ours, and works; it costs a start of Python. */
  isOurs(program: Command): Promise<boolean>;
}

/** What `gradlint --version` prints; another program of that name, on the same package index, prints something else. */
export function isOurVersion(told: string | undefined): boolean {
  return /^gradlint, version \d/.test(told ?? "");
}

export function isFound(answer: Command | NotFound): answer is Command {
  return "command" in answer;
}

export async function findServer(wishes: Wishes, world: World): Promise<Command | NotFound> {
  const told = expand(wishes.path, wishes.folder, world);
  if (told !== "") {
    const program = resolve(told, wishes.folder, world);
    // What was asked for by name is not replaced by something else.
    return program === undefined
      ? { tried: [`gradlint.path: ${told}`], foreign: [] }
      : start(program, "gradlint.path");
  }
  const interpreter = expand(wishes.interpreter, wishes.folder, world);
  if (interpreter !== "") {
    const python = resolve(interpreter, wishes.folder, world);
    return python === undefined
      ? { tried: [`gradlint.interpreter: ${interpreter}`], foreign: [] }
      : startModule(python, "gradlint.interpreter");
  }
  return search(wishes, world);
}

/** The first name is only ours; the second may be that of another program, which is asked. */
const NAMES = ["torch-gradlint", "gradlint"] as const;
const MODULE = "torch_gradlint";

async function search(wishes: Wishes, world: World): Promise<Command | NotFound> {
  const tried: string[] = [];
  const foreign: string[] = [];
  for (const [python, origin] of environments(wishes, world)) {
    if (!world.isFile(python)) {
      continue;
    }
    for (const name of NAMES) {
      const program = sibling(python, name, world);
      if (world.isFile(program)) {
        if (name === "torch-gradlint" || (await world.isOurs(start(program, origin)))) {
          return start(program, origin);
        }
        foreign.push(program);
      }
      tried.push(program);
    }
    if (await world.isOurs(startModule(python, origin))) {
      return startModule(python, origin);
    }
    tried.push(`${python} -m ${MODULE}`);
  }
  for (const name of NAMES) {
    const program = onPath(name, world);
    if (program !== undefined) {
      if (name === "torch-gradlint" || (await world.isOurs(start(program, "PATH")))) {
        return start(program, "PATH");
      }
      foreign.push(program);
    }
    tried.push(`${name} on the PATH`);
  }
  for (const name of ["python3", "python"]) {
    const python = onPath(name, world);
    if (python !== undefined && (await world.isOurs(startModule(python, "PATH")))) {
      return startModule(python, "PATH");
    }
    tried.push(`${name} -m ${MODULE}`);
  }
  return { tried, foreign };
}

function environments(wishes: Wishes, world: World): [string, string][] {
  const found: [string, string][] = [];
  if (wishes.selected !== undefined) {
    found.push([wishes.selected, "the selected Python environment"]);
  }
  if (wishes.folder !== undefined) {
    for (const name of [".venv", "venv"]) {
      const python = world.windows ? ["Scripts", "python.exe"] : ["bin", "python"];
      found.push([flavour(world).join(wishes.folder, name, ...python), `${name} of the workspace`]);
    }
  }
  return found;
}

/** The program that pip puts beside the interpreter; on Windows Conda has it in `Scripts`, one folder below. */
function sibling(python: string, name: string, world: World): string {
  const { dirname, join, basename } = flavour(world);
  if (!world.windows) {
    return join(dirname(python), name);
  }
  const folder = dirname(python);
  return basename(folder).toLowerCase() === "scripts"
    ? join(folder, `${name}.exe`)
    : join(folder, "Scripts", `${name}.exe`);
}

function start(command: string, origin: string): Command {
  return { command, args: [], origin };
}

function startModule(python: string, origin: string): Command {
  return { command: python, args: ["-m", MODULE], origin };
}

/** `~`, `${workspaceFolder}` and `${env:NAME}`, as VS Code's own settings have them. */
export function expand(text: string, folder: string | undefined, world: World): string {
  return text
    .trim()
    .replace(/^~(?=$|[\\/])/, () => world.home)
    .replace(/\$\{workspaceFolder\}/g, () => folder ?? "")
    .replace(/\$\{env:([^}]*)\}/g, (_, name: string) => world.env[name] ?? "");
}

function resolve(told: string, folder: string | undefined, world: World): string | undefined {
  const { isAbsolute, join } = flavour(world);
  if (!/[\\/]/.test(told)) {
    return onPath(told, world);
  }
  const file = isAbsolute(told) || folder === undefined ? told : join(folder, told);
  return endings(file, world).find((candidate) => world.isFile(candidate));
}

function onPath(name: string, world: World): string | undefined {
  const { delimiter, join } = flavour(world);
  for (const folder of (world.env["PATH"] ?? world.env["Path"] ?? "").split(delimiter)) {
    if (folder === "" || isStoreAlias(folder, world)) {
      continue;
    }
    const found = endings(join(folder, name), world).find((candidate) => world.isFile(candidate));
    if (found !== undefined) {
      return found;
    }
  }
  return undefined;
}

/** Windows puts a `python.exe` there that is no Python: it opens the shop. */
function isStoreAlias(folder: string, world: World): boolean {
  return world.windows && /\\microsoft\\windowsapps\\?$/i.test(folder);
}

/** Only `.exe`: Node starts `.cmd` and `.bat` through a shell alone. */
function endings(file: string, world: World): string[] {
  return world.windows && !/\.exe$/i.test(file) ? [`${file}.exe`] : [file];
}

function flavour(world: World): path.PlatformPath {
  return world.windows ? path.win32 : path.posix;
}
