import { appendFileSync } from 'node:fs';
import path from 'node:path';
import { MongoClient } from 'mongodb';
import { watchProductCommands } from '#testing/stores/product-commands.ts';
import { type FeatureKind, readFeatures } from './features.ts';
import { openShapeNotes, TEST_FILE } from './shape-notes.ts';
import { FEATURES_FOLDER, lineOf } from './uses.ts';

/**
 * Program, preloaded into a process of the tests by `--import`: records each feature of MongoDB that product code uses, with the file that
 * uses it. Each process writes its own files in the folder FEATURES_FOLDER, at the first use of a feature, because tests kill processes.
 */
const folder = process.env[FEATURES_FOLDER];
if (folder !== undefined) record(folder);

function record(folder: string): void {
  const notes = path.join(folder, `${process.pid}.txt`);
  const noted = new Set<string>();
  const shapes = process.env[TEST_FILE] === undefined ? undefined : openShapeNotes(folder);
  if (shapes !== undefined) followClients((client) => shapes.watch(client));
  watchProductCommands((event, file) => {
    shapes?.started(event);
    readFeatures(event.command, (kind: FeatureKind, name) => {
      const line = lineOf(`${kind} ${name}`, file);
      if (noted.has(line)) return;
      noted.add(line);
      appendFileSync(notes, line);
    });
  });
}

/** Calls `watch` for each client of this process before it connects. */
function followClients(watch: (client: MongoClient) => void): void {
  const seen = new WeakSet<MongoClient>();
  const connect = MongoClient.prototype.connect;
  MongoClient.prototype.connect = function followedConnect() {
    if (!seen.has(this)) watch(this);
    seen.add(this);
    return connect.call(this);
  };
}
