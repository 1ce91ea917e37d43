import { appendFileSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { ClientSession, Document } from 'mongodb';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { PLACEMENTS } from '#infra/mongo/schema/shard-keys.ts';
import { filtersOf, keysOf } from './route-of.ts';

/** A committed transaction of product code, without its values. */
export interface SeenTransaction {
  /** The file and function that opened it, or the queue of the worker's command. */
  readonly kind: string;
  /** Commands that it sent, with the commit. */
  readonly commands: number;
  /** Number of distinct places at most: shard keys of a collection, and the first shard. `all`: a statement names no shard key. */
  readonly shards: number | 'all';
  /** `collection command`, sorted. */
  readonly statements: readonly string[];
}

interface Open {
  opener: string;
  queue: string | undefined;
  commands: number;
  places: Set<string>;
  isEverywhere: boolean;
  statements: Set<string>;
}

const ENDING = '.transactions.tsv';
/** Openers that only pass on the outcome of a command; the queue names the transaction better. */
const KERNEL = /^workers\/(?:settle|run-command)\.ts /;
const FIRST_SHARD = 'the first shard';

/** Watches the transactions of this process. */
export interface TransactionWatch {
  /** A transaction is started. `opener` is absent if the same function repeats it after a conflict, or if a test starts it. */
  start(session: ClientSession, opener: string | undefined): void;
  /** A driver operation begins. */
  begin(session: ClientSession | undefined): void;
  /** A command is sent: by product code, or by a test, which makes the transaction the test's. */
  sent(name: string, command: Document, isProduct: boolean): void;
}

/** Notes each kind of transaction in a file of the folder when it first commits, because tests kill processes. */
export function openTransactionWatch(folder: string): TransactionWatch {
  const notes = path.join(folder, `${process.pid}${ENDING}`);
  const openers = new WeakMap<ClientSession, string>();
  const starting = new Map<string, string>();
  const open = new Map<string, Open>();
  const queues = new Map<string, string>();
  const noted = new Set<string>();

  function commit({ opener, queue, commands, places, isEverywhere, statements }: Open): void {
    // A test may settle a command that no worker has claimed.
    if (KERNEL.test(opener) && queue === undefined) return;
    const kind = KERNEL.test(opener) ? `queue ${queue}` : opener;
    const shards = isEverywhere ? 'all' : places.size;
    const line = [kind, commands, shards, [...statements].sort().join(',')].join('\t');
    if (noted.has(line)) return;
    noted.add(line);
    appendFileSync(notes, `${line}\n`);
  }

  function add(transaction: Open, name: string, command: Document): void {
    transaction.commands += 1;
    const collection = String(command[name]);
    const placement = PLACEMENTS[collection as keyof typeof PLACEMENTS];
    if (placement === undefined) return;
    transaction.statements.add(`${collection} ${name}`);
    for (const filter of filtersOf(name, command)) {
      if (isMailbox(collection)) transaction.queue ??= queues.get(String(filter._id));
      const keys = 'shardKey' in placement ? keysOf(filter, placement) : [FIRST_SHARD];
      if (keys === null) transaction.isEverywhere = true;
      for (const key of keys ?? []) transaction.places.add('shardKey' in placement ? `${collection} ${key}` : key);
    }
  }

  return {
    start(session, opener) {
      if (opener !== undefined) openers.set(session, opener);
    },
    begin(session) {
      if (session === undefined || !isStarting(session)) return;
      const opener = openers.get(session);
      if (opener !== undefined) starting.set(nameOf(session.id), opener);
    },
    sent(name, command, isProduct) {
      if (name === 'findAndModify' && isMailbox(command[name])) noteQueue(queues, command);
      if (command.autocommit !== false) return;
      const id = nameOf(command.lsid);
      if (command.startTransaction === true) {
        const opener = starting.get(id);
        open.delete(id);
        if (opener === undefined) return;
        const none = { queue: undefined, commands: 0, isEverywhere: false };
        open.set(id, { opener, ...none, places: new Set(), statements: new Set() });
      }
      const transaction = open.get(id);
      if (transaction === undefined) return;
      add(transaction, name, command);
      if (isProduct && name === 'commitTransaction') commit(transaction);
      if (!isProduct || name === 'commitTransaction' || name === 'abortTransaction') open.delete(id);
    },
  };
}

/** Returns whether the next command of the session begins a transaction. The driver's type hides the state. */
function isStarting(session: ClientSession): boolean {
  return (session as unknown as { transaction: { isStarting: boolean } }).transaction.isStarting;
}

function isMailbox(collection: unknown): boolean {
  return MAILBOXES.some((name) => name === collection);
}

/** Notes the queue of a claimed command; a settlement does not name it. */
function noteQueue(queues: Map<string, string>, { query, update }: Document): void {
  const [, queue] = /"\$queue",\{"\$literal":"([^"]+)"/.exec(JSON.stringify(update)) ?? [];
  if (queue !== undefined) queues.set(String(query._id), queue);
}

function nameOf(lsid: Document | undefined): string {
  return String(lsid?.id?.toString('hex'));
}

/** Reads the transactions of all processes. Ignores an incomplete last line, which a killed process may leave. */
export function readTransactions(folder: string): SeenTransaction[] {
  const lines = new Set<string>();
  for (const name of readdirSync(folder).filter((file) => file.endsWith(ENDING))) {
    for (const [, line = ''] of readFileSync(path.join(folder, name), 'utf8').matchAll(/^(.+)\n/gm)) lines.add(line);
  }
  return [...lines].map((line) => {
    const [kind = '', commands, shards, statements = ''] = line.split('\t');
    return {
      kind,
      commands: Number(commands),
      shards: shards === 'all' ? 'all' : Number(shards),
      statements: statements.split(',').filter((statement) => statement !== ''),
    };
  });
}
