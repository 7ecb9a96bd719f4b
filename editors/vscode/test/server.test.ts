/** The server that `find.ts` finds on this machine, started and talked to as the extension does. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import {
  createProtocolConnection,
  StreamMessageReader,
  StreamMessageWriter,
  type CodeAction,
  type ProtocolConnection,
  type PublishDiagnosticsParams,
} from "vscode-languageserver-protocol/node";

import { findServer, isFound } from "../src/find";
import { machine, output } from "../src/machine";
import { readSettings, serverOptions } from "../src/settings";

const BAD = `import torch

def train(model, loader, optimizer):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = model(inputs, targets)
        loss.backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
`;

test("the server that is found tells of a mistake, and fixes it", { timeout: 60_000 }, async (context) => {
  const wishes = { path: process.env["GRADLINT"] ?? "", interpreter: "", selected: undefined, folder: undefined };
  const found = await findServer(wishes, machine);
  if (!isFound(found)) {
    context.skip("gradlint is not installed here; set GRADLINT to the program");
    return;
  }
  assert.match((await output(found, ["--version"])) ?? "", /^gradlint, version \d/);
  const folder = mkdtempSync(join(tmpdir(), "gradlint-"));
  const child = spawn(found.command, [...found.args, "server"], { cwd: homedir(), stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<number | null>((done) => child.on("exit", done));
  const connection = createProtocolConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin));
  try {
    await talk(connection, pathToFileURL(folder).href);
    await connection.sendRequest("shutdown");
    await connection.sendNotification("exit");
    assert.equal(await ended, 0);
  } finally {
    connection.dispose();
    child.kill();
    rmSync(folder, { recursive: true });
  }
});

async function talk(connection: ProtocolConnection, root: string): Promise<void> {
  const uri = `${root}/train.py`;
  const published = new Promise<PublishDiagnosticsParams>((done) => {
    connection.onNotification("textDocument/publishDiagnostics", done);
  });
  connection.listen();
  const settings = readSettings({ get: (key) => (key === "select" ? ["GL1"] : undefined) });
  const able = { notebookDocument: { synchronization: {} } };
  const begun = { processId: process.pid, rootUri: root, capabilities: able, initializationOptions: serverOptions(settings) };
  const { capabilities } = await connection.sendRequest<{ capabilities: Record<string, unknown> }>("initialize", begun);
  assert.ok(capabilities["notebookDocumentSync"]);
  await connection.sendNotification("initialized", {});
  const textDocument = { uri, languageId: "python", version: 1, text: BAD };
  await connection.sendNotification("textDocument/didOpen", { textDocument });

  const { diagnostics } = await published;
  assert.deepEqual(diagnostics.map((one) => [one.code, one.range.start.line]), [["GL101", 8]]);

  const range = { start: { line: 0, character: 0 }, end: { line: 9, character: 0 } };
  const wish = { textDocument: { uri }, range, context: { diagnostics: [], only: ["source.fixAll.gradlint"] } };
  const actions = await connection.sendRequest<CodeAction[]>("textDocument/codeAction", wish);
  assert.deepEqual(actions.map((action) => action.kind), ["source.fixAll.gradlint"]);
  assert.ok(actions[0]?.edit?.changes?.[uri]?.length);
}
