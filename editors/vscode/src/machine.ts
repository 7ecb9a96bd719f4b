/** The real machine, as `find.ts` asks for it. */

import { execFile } from "node:child_process";
import { statSync } from "node:fs";
import { homedir } from "node:os";

import { isOurVersion, type Command, type World } from "./find";

const PATIENCE = 20_000;

export const machine: World = {
  windows: process.platform === "win32",
  home: homedir(),
  env: process.env,
  isFile(file) {
    return statSync(file, { throwIfNoEntry: false })?.isFile() === true;
  },
  async isOurs(program) {
    return isOurVersion(await output(program, ["--version"]));
  },
};

/** What a command prints on stdout, or undefined if it fails. */
export function output(program: Command, args: readonly string[]): Promise<string | undefined> {
  // Not in the workspace: `python -m` would take a folder named `gradlint` there for the module.
  const options = { timeout: PATIENCE, cwd: homedir(), env: { ...process.env, PYTHONUTF8: "1" } };
  return new Promise((done) => {
    execFile(program.command, [...program.args, ...args], options, (error, stdout) => {
      done(error === null ? stdout : undefined);
    });
  });
}
