import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type CommandStartedEvent, MongoClient } from 'mongodb';

/** Receives a command that product code sends, with the file that began it. */
export type CommandListener = (event: CommandStartedEvent, file: string) => void;

const ROOT = path.resolve(import.meta.dirname, '../../..');
/** Matches files of the product. The operator's tool and the migration are part of it; other scripts are tools and tests. */
const PRODUCT = /^(?:(?:api|workers|shared)\/|scripts\/(?:examhall[./]|migrate\.ts$))(?!.*\.test\.ts$)/;
/** Numbers of frames to search for the caller of the driver: few for most operations, more for later batches of a cursor. */
const STACK_FRAMES = [10, 60];

type Callee = (...args: never[]) => unknown;
type Execute = (client: MongoClient, ...rest: unknown[]) => Promise<unknown>;
const driver: { executeOperation: Execute } = createRequire(import.meta.url)(
  'mongodb/lib/operations/execute_operation',
);
/** The file of the product that began the operation; null if a test or a tool did. */
const caller = new AsyncLocalStorage<string | null>();
const listeners: CommandListener[] = [];
const files = new Map<string, string | null | undefined>();
let isWatching = false;

/**
 * Calls `listener` for each command that product code sends from this process. A command belongs to the first file of the checkout on the
 * stack when the driver begins the operation. A test that reads through the same client is therefore not observed.
 */
export function watchProductCommands(listener: CommandListener): void {
  listeners.push(listener);
  if (isWatching) return;
  isWatching = true;
  const execute = driver.executeOperation;
  driver.executeOperation = function watchedOperation(client, ...rest) {
    const file = callerOnStack(watchedOperation);
    // An operation that the driver begins itself belongs to the surrounding operation.
    return file === undefined ? execute(client, ...rest) : caller.run(file, () => execute(client, ...rest));
  };
  watchClients();
}

/** Switches on command monitoring before `connect`, because it applies to later connections only and `connect` opens the first. */
function watchClients(): void {
  const watched = new WeakSet<MongoClient>();
  const connect = MongoClient.prototype.connect;
  MongoClient.prototype.connect = function watchedConnect() {
    if (!watched.has(this)) {
      watched.add(this);
      Reflect.set(this, 'monitorCommands', true);
      this.on('commandStarted', (event) => {
        const file = caller.getStore() ?? null;
        if (file !== null) for (const listener of listeners) listener(event, file);
      });
    }
    return connect.call(this);
  };
}

/** Returns the first file of the checkout on the stack above `callee`; null for other code, undefined without such a file. */
function callerOnStack(callee: Callee): string | null | undefined {
  const { stackTraceLimit, prepareStackTrace } = Error;
  let file: string | null | undefined;
  let isWhole = false;
  Error.prepareStackTrace = (_, sites) => {
    isWhole = sites.length < Error.stackTraceLimit;
    for (let at = 0; file === undefined && at < sites.length; at++) file = productFile(sites[at]?.getFileName());
  };
  for (const frames of STACK_FRAMES) {
    if (file !== undefined || isWhole) break;
    Error.stackTraceLimit = frames;
    const holder: { stack?: unknown } = {};
    Error.captureStackTrace(holder, callee);
    // Reading the property calls prepareStackTrace.
    void holder.stack;
  }
  Object.assign(Error, { stackTraceLimit, prepareStackTrace });
  return file;
}

function productFile(script: string | null | undefined): string | null | undefined {
  if (script === null || script === undefined || !script.startsWith('file://')) return undefined;
  if (!files.has(script)) {
    const file = path.relative(ROOT, fileURLToPath(script));
    const isForeign = /^(?:\.\.|node_modules)(?:\/|$)/.test(file);
    files.set(script, isForeign ? undefined : PRODUCT.test(file) ? file : null);
  }
  return files.get(script);
}
