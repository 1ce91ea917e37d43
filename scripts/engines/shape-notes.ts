import { hash } from 'node:crypto';
import { appendFileSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent, Document, MongoClient } from 'mongodb';
import { readFeatures } from './features.ts';

/** Variable with the running test file. If it is set, recorders note the shapes of its statements. */
export const TEST_FILE = 'EXAMHALL_TEST_FILE';

const ENDING = '.shapes.tsv';
/** Options that the driver sets, and limits that do not change what a statement does. */
const UNNOTED = /^option (?:lsid|txnNumber|\$clusterTime|\$readPreference.*|maxTimeMS|writeConcern.*)$/;
/**
 * Errors by which an engine keeps its guarantees: NamespaceNotFound, WriteConflict, NoSuchTransaction and DuplicateKey. Others come from
 * faults that tests make.
 */
const ERRORS: readonly unknown[] = [26, 112, 251, 11_000];

/**
 * Returns the shape of a command: its features together, without collections, fields and values. Two commands of equal shape need the
 * same abilities of a server.
 */
export function shapeOf(command: Document): string {
  const features = new Set<string>();
  readFeatures(command, (kind, name) => features.add(`${kind} ${name}`));
  return [...features]
    .filter((feature) => !UNNOTED.test(feature))
    .sort()
    .join(', ');
}

/**
 * Notes the shapes of the commands and transactions that product code sends in this process, and the errors of the server. Each is
 * written with the test file when it is first seen, because tests kill processes.
 */
export function openShapeNotes(folder: string) {
  const sent = new Map<number, string>();
  const transactions = new Map<string, Set<string>>();
  const note = openNotes(folder);

  function end(request: number, errors: readonly { code?: unknown }[]): void {
    const shape = sent.get(request);
    sent.delete(request);
    if (shape === undefined) return;
    for (const { code } of errors) if (ERRORS.includes(code)) note(`error ${code}: ${shape}`);
  }

  function follow(name: string, { lsid, txnNumber }: Document): void {
    const id = `${lsid?.id?.toString('hex')} ${txnNumber}`;
    const commands = transactions.get(id) ?? new Set();
    if (name === 'commitTransaction') note(`transaction: ${[...commands].sort().join(', ')}`);
    if (name === 'commitTransaction' || name === 'abortTransaction') transactions.delete(id);
    else transactions.set(id, commands.add(name));
  }

  return {
    /** Product code sends a command. */
    started({ requestId, commandName, command }: CommandStartedEvent): void {
      const shape = shapeOf(command);
      sent.set(requestId, shape);
      note(shape);
      if (command.autocommit === false) follow(commandName, command);
    },
    /** Follows the replies to the commands of a client. */
    watch(client: MongoClient): void {
      client.on('commandSucceeded', ({ requestId, reply }: CommandSucceededEvent) =>
        end(requestId, (reply as Document).writeErrors ?? []),
      );
      client.on('commandFailed', ({ requestId, failure }: CommandFailedEvent) =>
        end(requestId, [failure as { code?: unknown }]),
      );
    },
  };
}

/** Notes that the test file starts a MongoDB of its own, to stop or kill it. No other file has this shape. */
export function noteOwnServer(folder: string | undefined): void {
  const { [TEST_FILE]: file } = process.env;
  if (folder !== undefined && file !== undefined) openNotes(folder)(`server of ${file}`);
}

function openNotes(folder: string): (shape: string) => void {
  const notes = path.join(folder, `${process.pid}${ENDING}`);
  const noted = new Set<string>();
  return (shape) => {
    // A process may run several files, one after the other.
    const line = `${process.env[TEST_FILE]}\t${hash('sha1', shape, 'base64url')}\n`;
    if (noted.has(line)) return;
    noted.add(line);
    appendFileSync(notes, line);
  };
}

/** Returns the shapes of each test file. Ignores an incomplete last line, which a killed process may leave. */
export function readShapes(folder: string): ReadonlyMap<string, ReadonlySet<string>> {
  const shapes = new Map<string, Set<string>>();
  for (const name of readdirSync(folder).filter((file) => file.endsWith(ENDING))) {
    const lines = readFileSync(path.join(folder, name), 'utf8').matchAll(/^(.+)\t(.+)\n/gm);
    for (const [, file = '', shape = ''] of lines) shapes.set(file, (shapes.get(file) ?? new Set()).add(shape));
  }
  return shapes;
}
