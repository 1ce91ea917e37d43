import { AsyncLocalStorage } from 'node:async_hooks';
import { appendFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Document, MongoClient } from 'mongodb';
import { type FeatureKind, readFeatures } from './features.ts';
import { FEATURES_FOLDER, lineOf } from './uses.ts';

/**
 * Program, loaded with `--import` before a process of the tests: notes each feature of MongoDB that product code uses, and the file that
 * does, in a file of its own in the folder FEATURES_FOLDER. It writes at the first sight of a feature, because tests kill processes.
 *
 * The driver's command monitoring shows each command as it is sent. The file is the first one of the checkout on the stack where the
 * driver begins an operation. Later, a function that returns the driver's promise without awaiting it has left the stack; so a later
 * batch of a cursor is noted for the function that awaits it.
 */
interface User {
  /** A file of the product, relative to the root. */
  readonly file: string;
  /** Names of the features that are noted for it. */
  readonly noted: Map<FeatureKind, Set<string>>;
}

const ROOT = path.resolve(import.meta.dirname, '../..');
/** The operator's tool and the migration are part of the product; other scripts are tools and tests. */
const PRODUCT = /^(?:(?:api|workers|shared)\/|scripts\/(?:examhall[./]|migrate\.ts$))(?!.*\.test\.ts$)/;
/** Frames between the driver's entry and its caller: few for most operations, more for the later batches of a cursor. */
const STACK_FRAMES = [10, 60];

type Execute = (client: MongoClient, ...rest: unknown[]) => Promise<unknown>;
const driver: { executeOperation: Execute } = createRequire(import.meta.url)(
  'mongodb/lib/operations/execute_operation',
);
/** Who began the operation; null if that was a test or a tool. */
const caller = new AsyncLocalStorage<User | null>();
const watched = new WeakSet<MongoClient>();

const folder = process.env[FEATURES_FOLDER];
if (folder !== undefined) {
  watchOperations();
  watchClients(path.join(folder, `${process.pid}.txt`));
}

function watchOperations(): void {
  const execute = driver.executeOperation;
  driver.executeOperation = function watchedOperation(client, ...rest) {
    const user = userOnStack(watchedOperation);
    // An operation of the driver's own belongs to the one in which it began.
    return user === undefined ? execute(client, ...rest) : caller.run(user, () => execute(client, ...rest));
  };
}

/** Commands are monitored on connections that are made later, and a client makes its first in `connect`. */
function watchClients(notes: string): void {
  const connect = MongoClient.prototype.connect;
  MongoClient.prototype.connect = function watchedConnect() {
    if (!watched.has(this)) {
      watched.add(this);
      Reflect.set(this, 'monitorCommands', true);
      this.on('commandStarted', ({ command }) => note(notes, command));
    }
    return connect.call(this);
  };
}

function note(notes: string, command: Document): void {
  const user = caller.getStore() ?? null;
  if (user === null) return;
  readFeatures(command, (kind, name) => {
    const names = user.noted.get(kind) ?? new Set();
    if (names.has(name)) return;
    user.noted.set(kind, names.add(name));
    appendFileSync(notes, lineOf(`${kind} ${name}`, user.file));
  });
}

type Callee = (...args: never[]) => unknown;

/**
 * Returns the first file of the checkout on the stack above `callee`: null if it is no product code, undefined if there is none.
 * Test code may lie between the product and the driver; the command is the test's then.
 */
function userOnStack(callee: Callee): User | null | undefined {
  const { stackTraceLimit, prepareStackTrace } = Error;
  let user: User | null | undefined;
  let isWhole = false;
  Error.prepareStackTrace = (_, sites) => {
    isWhole = sites.length < Error.stackTraceLimit;
    for (let at = 0; user === undefined && at < sites.length; at++) user = userIn(sites[at]?.getFileName());
  };
  for (const frames of STACK_FRAMES) {
    if (user !== undefined || isWhole) break;
    Error.stackTraceLimit = frames;
    const holder: { stack?: unknown } = {};
    Error.captureStackTrace(holder, callee);
    // Reading the stack prepares it.
    void holder.stack;
  }
  Object.assign(Error, { stackTraceLimit, prepareStackTrace });
  return user;
}

const users = new Map<string, User | null | undefined>();

function userIn(script: string | null | undefined): User | null | undefined {
  if (script === null || script === undefined || !script.startsWith('file://')) return undefined;
  if (!users.has(script)) users.set(script, newUser(path.relative(ROOT, fileURLToPath(script))));
  return users.get(script);
}

function newUser(file: string): User | null | undefined {
  if (/^(?:\.\.|node_modules)(?:\/|$)/.test(file)) return undefined;
  return PRODUCT.test(file) ? { file, noted: new Map() } : null;
}
