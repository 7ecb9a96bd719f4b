/** The environment that the Python extension has selected, where that extension is installed. */

import * as vscode from "vscode";

/** The part of its public interface that is used here; the whole is in `@vscode/python-extension`. */
interface PythonExtension {
  readonly environments: {
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly id: string; readonly path: string };
    resolveEnvironment(environment: { readonly id: string; readonly path: string }): Promise<
      { readonly executable: { readonly uri?: vscode.Uri } } | undefined
    >;
  };
}

export async function pythonExtension(): Promise<PythonExtension | undefined> {
  const extension = vscode.extensions.getExtension<PythonExtension>("ms-python.python");
  if (extension === undefined) {
    return undefined;
  }
  try {
    const api = extension.isActive ? extension.exports : await extension.activate();
    // Before 2023 it had no environments to tell of.
    return api?.environments === undefined ? undefined : api;
  } catch {
    return undefined; // its own trouble is told by itself
  }
}

export async function selectedPython(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const environments = (await pythonExtension())?.environments;
  if (environments === undefined) {
    return undefined;
  }
  const resolved = await environments.resolveEnvironment(environments.getActiveEnvironmentPath(folder));
  return resolved?.executable.uri?.fsPath;
}
