import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type CommandStartedEvent, MongoClient } from 'mongodb';
import { PLACEMENTS } from '#infra/mongo/schema/shard-keys.ts';
import { faultsOf, isExcepted } from './shard-rule.ts';

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
const files = new Map<string, string | null | undefined>();

/**
 * Fails this test process if product code sends a statement that a sharded cluster would refuse or send in turn, or one that goes to every
 * shard without an exception. An error in the reply could become a repeat or a masked 500, so the process names the statement at once
 * and exits with 1 at its end.
 */
export function demandShardKeys(): void {
  const named = new Set<string>();
  watchOperations();
  watchClients(({ commandName, command }, file) => {
    for (const fault of faultsOf(commandName, command, PLACEMENTS)) {
      if (isExcepted(fault, file)) continue;
      const line = `${fault.collection} ${fault.command} {${fault.shape}} in ${file} ${fault.fault}`;
      if (named.has(line)) continue;
      if (named.size === 0) process.on('exit', failProcess);
      named.add(line);
      process.stderr.write(`error: ${line} (scripts/testing/stores/shard-rule.ts has the exceptions)\n`);
    }
  });
}

function failProcess(): void {
  process.exitCode = 1;
}

/** Notes by which file of the checkout, the first on the stack, the driver begins each operation. A test's own reads are not observed. */
function watchOperations(): void {
  const execute = driver.executeOperation;
  driver.executeOperation = function watchedOperation(client, ...rest) {
    const file = callerOnStack(watchedOperation);
    // An operation that the driver begins itself belongs to the surrounding operation.
    return file === undefined ? execute(client, ...rest) : caller.run(file, () => execute(client, ...rest));
  };
}

/** Reports each command of product code. Monitoring applies to later connections only, so it begins before `connect`. */
function watchClients(listener: (event: CommandStartedEvent, file: string) => void): void {
  const watched = new WeakSet<MongoClient>();
  const connect = MongoClient.prototype.connect;
  MongoClient.prototype.connect = function watchedConnect() {
    if (!watched.has(this)) {
      watched.add(this);
      Reflect.set(this, 'monitorCommands', true);
      this.on('commandStarted', (event) => {
        const file = caller.getStore() ?? null;
        if (file !== null) listener(event, file);
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
