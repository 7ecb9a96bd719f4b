import assert from "node:assert/strict";
import { test } from "node:test";

import { Once, type Memory } from "../src/once";

function memory(): Memory {
  const kept = new Map<string, unknown>();
  return {
    get: (key) => kept.get(key),
    update: (key, value) => {
      kept.set(key, value);
      return Promise.resolve();
    },
  };
}

test("what is missing is told once in a workspace, also by another window", async () => {
  const kept = memory();
  assert.equal(await new Once(kept).isNews("gradlint was not found", false), true);
  assert.equal(await new Once(kept).isNews("gradlint was not found", false), false);
  assert.equal(await new Once(kept).isNews("another program", false), true);
});

test("whoever asks is told again, and so is who had it meanwhile", async () => {
  const once = new Once(memory());
  await once.isNews("gradlint was not found", false);
  assert.equal(await once.isNews("gradlint was not found", true), true);
  await once.forget();
  assert.equal(await once.isNews("gradlint was not found", false), true);
});
