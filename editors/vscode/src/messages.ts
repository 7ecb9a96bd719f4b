/** What people are told when there is no server, each time with a way out. */

import * as vscode from "vscode";

import type { Command, NotFound } from "./find";
import { installCommand, reasonFrom } from "./install";

const INSTALL = "Install…";
const SETTINGS = "Open Settings";
const OUTPUT = "Show Output";
const RESTART = "Restart";

export function tellNotFound(missing: NotFound, python: string | undefined, channel: vscode.LogOutputChannel): void {
  const [first = ""] = missing.tried;
  const told = first.startsWith("gradlint.");
  const message = told
    ? `gradlint cannot be started: there is no program at ${first.replace(": ", " = ")}.`
    : `gradlint was not found. Install it into your Python environment: ${installCommand(undefined, process.platform)}`;
  void offer(message, told ? [SETTINGS, OUTPUT] : [INSTALL, SETTINGS, OUTPUT], python, channel);
}

export function tellStopped(
  lastWords: readonly string[],
  program: Command | undefined,
  python: string | undefined,
  channel: vscode.LogOutputChannel,
): void {
  const message = `gradlint's server has stopped: ${reasonFrom(lastWords)}`;
  const target = program?.args[0] === "-m" ? program.command : python;
  void offer(message, /pip install/.test(message) ? [INSTALL, OUTPUT] : [RESTART, OUTPUT], target, channel);
}

async function offer(
  message: string,
  buttons: string[],
  python: string | undefined,
  channel: vscode.LogOutputChannel,
): Promise<void> {
  const chosen = await vscode.window.showErrorMessage(message, ...buttons);
  if (chosen === SETTINGS) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "@ext:gradlint.gradlint");
  } else if (chosen === OUTPUT) {
    channel.show();
  } else if (chosen === RESTART) {
    await vscode.commands.executeCommand("gradlint.restart");
  } else if (chosen === INSTALL) {
    const terminal = vscode.window.createTerminal("gradlint");
    terminal.show();
    // Typed, not run: which environment it goes into is for people to see first.
    terminal.sendText(installCommand(python, process.platform), false);
  }
}
