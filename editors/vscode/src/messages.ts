/** What people are told when there is no server, each time with a way out. */

import * as vscode from "vscode";

import type { Command, NotFound } from "./find";
import { foreign, installCommand, isSetting, notFound, reasonFrom } from "./install";

const INSTALL = "Install…";
const SETTINGS = "Open Settings";
const OUTPUT = "Show Output";
const RESTART = "Restart";

/** Of one reason people are told once. */
export async function tellNotFound(
  missing: NotFound,
  python: string | undefined,
  channel: vscode.LogOutputChannel,
  isNews: (message: string) => Promise<boolean>,
): Promise<void> {
  const message = notFound(missing, process.platform);
  if (await isNews(message)) {
    const buttons = isSetting(missing) ? [SETTINGS, OUTPUT] : [INSTALL, SETTINGS, OUTPUT];
    void offer(message, buttons, python, channel);
  }
}

/** The program that a setting names is not ours. */
export async function tellForeign(
  program: Command,
  python: string | undefined,
  channel: vscode.LogOutputChannel,
  isNews: (message: string) => Promise<boolean>,
): Promise<void> {
  const message = foreign([program.command], process.platform);
  if (await isNews(message)) {
    void offer(message, [INSTALL, SETTINGS, OUTPUT], python, channel);
  }
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
