import type { Document } from 'mongodb';
import type { Flaw } from './flawed-mongo.ts';

/** A server that lacks one behaviour of the probe. */
export interface FlawCase {
  lacks: string;
  /** Misbehaviour of the server, as a verb phrase: the predicate of a test title. */
  how: string;
  /** Further behaviours that every server with this flaw lacks. */
  also?: readonly string[];
  /** Creates the flaw. Each server has its own, because a flaw may record commands. */
  flaw(): Flaw;
}

const CONFLICT = 112;
const HOUR_MS = 3_600_000;
/** The reply to a write that changed one row. */
const DONE: Document = { ok: 1, n: 1, nModified: 1 };

export const FLAWS: readonly FlawCase[] = [
  lacking('server', 'is too old', () => changing('buildInfo', (reply) => Object.assign(reply, { version: '6.0.20' }))),
  lacking('duplicate keys', 'does not name the index that refuses a row', () =>
    changing('insert', (reply) => {
      for (const error of reply.writeErrors ?? []) delete error.keyPattern;
    }),
  ),
  lacking('freed keys', 'keeps the keys of deleted rows', () =>
    answering((command) => nameOf(command) === 'delete', DONE),
  ),
  lacking(
    'partial unique indexes',
    'creates partial unique indexes over all rows',
    () =>
      altering((command) => {
        if (nameOf(command) === 'createIndexes')
          for (const index of command.indexes) if (index.unique === true) delete index.partialFilterExpression;
      }),
    ['freed keys', 'index definitions'],
  ),
  lacking('one winner per key', 'acknowledges two transactions that insert one key', () => {
    const lost = new Set<string>();
    return {
      reply(reply, command) {
        const transaction = JSON.stringify([command.lsid, command.txnNumber]);
        if (isInTransaction(command) && nameOf(command) === 'insert' && codesOf(reply).includes(CONFLICT)) {
          lost.add(transaction);
          replaceReply(reply, DONE);
        }
        if (nameOf(command) === 'commitTransaction' && lost.has(transaction)) replaceReply(reply, { ok: 1 });
      },
    };
  }),
  lacking('index definitions', 'does not list which indexes are unique', () =>
    changing('listIndexes', (reply) => {
      for (const index of reply.cursor.firstBatch) delete index.unique;
    }),
  ),
  lacking('server time', 'has a clock in updates that is an hour ahead', () =>
    rewriting((part) => (part === '$$NOW' ? new Date(Date.now() + HOUR_MS) : part)),
  ),
  lacking('literals', 'evaluates $literal', () =>
    rewriting((part) => (isPlain(part) && '$literal' in part ? part.$literal : part)),
  ),
  lacking(
    'guarded updates',
    'treats every condition as true',
    () => rewriting((part) => (isPlain(part) && '$cond' in part ? part.$cond[1] : part)),
    ['concurrent updates'],
  ),
  lacking('concurrent updates', 'loses every other of several concurrent updates of a row', () => {
    let counted = 0;
    return answering((command) => JSON.stringify(command).includes('["$count",1]') && counted++ % 2 === 1, DONE);
  }),
  lacking('retried writes', 'applies a repeated update twice', () =>
    altering((command) => {
      if (nameOf(command) === 'update' && !isInTransaction(command)) delete command.txnNumber;
    }),
  ),
  lacking('atomic transactions', 'commits aborted transactions', () =>
    altering((command) => {
      if (nameOf(command) !== 'abortTransaction') return;
      const { abortTransaction: _, ...rest } = command;
      for (const name of Object.keys(command)) delete command[name];
      // The name of a command is its first field.
      Object.assign(command, { commitTransaction: 1 }, rest);
    }),
  ),
  lacking(
    'write conflicts',
    'does not label conflicts',
    () => ({
      reply(reply) {
        if (codesOf(reply).includes(CONFLICT)) delete reply.errorLabels;
      },
    }),
    ['one winner per key'],
  ),
  lacking('ended sessions', 'acknowledges killSessions and does nothing', () =>
    answering((command) => nameOf(command) === 'killSessions', { ok: 1 }),
  ),
  lacking('majority writes', 'ignores write concerns', () => altering((command) => delete command.writeConcern)),
  lacking('reads after writes', 'returns no operation time', () => ({
    reply: (reply) => void delete reply.operationTime,
  })),
];

export function nameOf(command: Document): string {
  return Object.keys(command)[0] ?? '';
}

export function isInTransaction(command: Document): boolean {
  return command.autocommit === false;
}

export function refusal(code: number, errmsg: string): Document {
  return { ok: 0, code, errmsg };
}

function lacking(lacks: string, how: string, flaw: () => Flaw, also?: readonly string[]): FlawCase {
  return { lacks, how, flaw, ...(also && { also }) };
}

/** Returns a server that answers these commands with `answer`, without effect. */
function answering(isIt: (command: Document) => boolean, answer: Document): Flaw {
  return { command: (command) => (isIt(command) ? answer : undefined) };
}

/** Returns a server that executes other commands than it receives. */
function altering(change: (command: Document) => unknown): Flaw {
  return { command: (command) => void change(command) };
}

/** Returns a server that changes its replies to the commands of this name. */
function changing(name: string, change: (reply: Document) => void): Flaw {
  return {
    reply(reply, command) {
      if (nameOf(command) === name) change(reply);
    },
  };
}

/** Returns a server that executes the pipelines of updates with every part replaced by `change`, innermost first. */
function rewriting(change: (part: unknown) => unknown): Flaw {
  const rewrite = (value: unknown): unknown => {
    if (Array.isArray(value)) return change(value.map(rewrite));
    if (!isPlain(value) || '$literal' in value) return change(value);
    return change(Object.fromEntries(Object.entries(value).map(([name, part]) => [name, rewrite(part)])));
  };
  return altering((command) => {
    if (Array.isArray(command.update)) command.update = rewrite(command.update);
    for (const update of command.updates ?? []) if (Array.isArray(update.u)) update.u = rewrite(update.u);
  });
}

function replaceReply(reply: Document, by: Document): void {
  for (const name of Object.keys(reply)) if (!name.startsWith('$') && name !== 'operationTime') delete reply[name];
  Object.assign(reply, by);
}

/** Returns the error codes of a reply: of the command and of each write in it. */
function codesOf(reply: Document): unknown[] {
  return [reply.code, ...(reply.writeErrors ?? []).map(({ code }: Document) => code)];
}

function isPlain(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
