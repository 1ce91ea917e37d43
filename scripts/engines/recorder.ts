import { AsyncLocalStorage } from 'node:async_hooks';
import { appendFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ClientSession, type Document, MongoClient } from 'mongodb';
import { PLACEMENTS } from '#infra/mongo/schema/shard-keys.ts';
import { openRouteCounter } from '#scripts/shards/route-counts.ts';
import { routesOf } from '#scripts/shards/route-of.ts';
import { openTransactionWatch, type TransactionWatch } from '#scripts/shards/transaction-notes.ts';
import { type FeatureKind, readFeatures } from './features.ts';
import { openShapeNotes, TEST_FILE } from './shape-notes.ts';
import { FEATURES_FOLDER, lineOf } from './uses.ts';

/**
 * Program, preloaded into a process of the tests by `--import`: records each feature of MongoDB that product code uses, with the file that
 * uses it. It also counts the statements of product code by how many shards each would reach. Each process writes its own files in the
 * folder FEATURES_FOLDER, at the first use of a feature, because tests kill processes.
 *
 * The driver's command monitoring shows each command as it is sent. The recorded file is the first one of the checkout on the stack when
 * the driver begins an operation. For a later batch of a cursor, that is the function that awaits it: a function that returned the
 * driver's promise without awaiting it has left the stack.
 */
interface User {
  /** A file of the product, relative to the root. */
  readonly file: string;
  /** Names of the features that are recorded for it. */
  readonly noted: Map<FeatureKind, Set<string>>;
}

const ROOT = path.resolve(import.meta.dirname, '../..');
/** Matches files of the product. The operator's tool and the migration are part of it; other scripts are tools and tests. */
const PRODUCT = /^(?:(?:api|workers|shared)\/|scripts\/(?:examhall[./]|migrate\.ts$))(?!.*\.test\.ts$)/;
/** Numbers of frames to search for the caller of the driver: few for most operations, more for later batches of a cursor. */
const STACK_FRAMES = [10, 60];

type Operation = { readonly session?: ClientSession };
type Execute = (client: MongoClient, operation: Operation, ...rest: unknown[]) => Promise<unknown>;
const driver: { executeOperation: Execute } = createRequire(import.meta.url)(
  'mongodb/lib/operations/execute_operation',
);
/** The file that began the operation; null if that is a test or a tool. */
const caller = new AsyncLocalStorage<User | null>();
const watched = new WeakSet<MongoClient>();

const folder = process.env[FEATURES_FOLDER];
if (folder !== undefined) {
  const transactions = openTransactionWatch(folder);
  watchTransactions(transactions);
  watchOperations(transactions);
  watchClients(folder, transactions);
}

function watchTransactions(transactions: TransactionWatch): void {
  const start = ClientSession.prototype.startTransaction;
  ClientSession.prototype.startTransaction = function watchedStart(options) {
    transactions.start(this, openerOnStack(watchedStart));
    return start.call(this, options);
  };
}

function watchOperations(transactions: TransactionWatch): void {
  const execute = driver.executeOperation;
  driver.executeOperation = function watchedOperation(client, operation, ...rest) {
    const user = userOnStack(watchedOperation);
    transactions.begin(operation.session);
    // An operation that the driver begins itself belongs to the surrounding operation.
    if (user === undefined) return execute(client, operation, ...rest);
    return caller.run(user, () => execute(client, operation, ...rest));
  };
}

/** Switches on command monitoring before `connect`, because it applies to later connections only and `connect` opens the first. */
function watchClients(folder: string, transactions: TransactionWatch): void {
  const notes = path.join(folder, `${process.pid}.txt`);
  const countRoute = openRouteCounter(folder);
  const shapes = process.env[TEST_FILE] === undefined ? undefined : openShapeNotes(folder);
  const connect = MongoClient.prototype.connect;
  MongoClient.prototype.connect = function watchedConnect() {
    if (!watched.has(this)) {
      watched.add(this);
      Reflect.set(this, 'monitorCommands', true);
      shapes?.watch(this);
      this.on('commandStarted', (event) => {
        const { commandName, command } = event;
        const user = caller.getStore() ?? null;
        transactions.sent(commandName, command, user !== null);
        if (user === null) return;
        shapes?.started(event);
        note(notes, command, user);
        for (const route of routesOf(commandName, command, PLACEMENTS)) countRoute(route, user.file);
      });
    }
    return connect.call(this);
  };
}

function note(notes: string, command: Document, user: User): void {
  readFeatures(command, (kind, name) => {
    const names = user.noted.get(kind) ?? new Set();
    if (names.has(name)) return;
    user.noted.set(kind, names.add(name));
    appendFileSync(notes, lineOf(`${kind} ${name}`, user.file));
  });
}

type Callee = (...args: never[]) => unknown;

/**
 * Returns the first file of the checkout on the stack above `callee`; null if it is not product code, undefined if there is no such file.
 * If test code is between product code and the driver, the command belongs to the test.
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
    // Reading the property calls prepareStackTrace.
    void holder.stack;
  }
  Object.assign(Error, { stackTraceLimit, prepareStackTrace });
  return user;
}

/** The file that begins and commits each transaction, relative to the root. */
const TRANSACTION_FILE = 'shared/infra/mongo/transaction.ts';
/** Number of frames from the start of a transaction to the function that opens it, at most. */
const OPENER_FRAMES = 40;

/**
 * Returns the file and the function of the product that opened the transaction which starts now. A repeat after a conflict starts without
 * them: the stack then has only functions that await the transaction, and these need not be the ones that opened it.
 */
function openerOnStack(callee: Callee): string | undefined {
  const { stackTraceLimit, prepareStackTrace } = Error;
  let opener: string | undefined;
  Error.prepareStackTrace = (_, sites) => {
    // A function that awaits the transaction does not run now.
    const running = sites.filter((site) => !site.isAsync());
    const files = running.map((site) => userIn(site.getFileName())?.file);
    const below = files.lastIndexOf(TRANSACTION_FILE);
    const at = files.findIndex((file, index) => index > below && file !== undefined);
    if (below !== -1 && at !== -1) opener = `${files[at]} ${running[at]?.getFunctionName() ?? ''}`;
  };
  Error.stackTraceLimit = OPENER_FRAMES;
  const holder: { stack?: unknown } = {};
  Error.captureStackTrace(holder, callee);
  void holder.stack;
  Object.assign(Error, { stackTraceLimit, prepareStackTrace });
  return opener;
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
