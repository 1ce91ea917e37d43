import type { Document } from 'mongodb';
import type { Flaw } from './flawed-mongo.ts';

/** A server that lacks one behaviour of the probe. */
export interface FlawCase {
  /** Name of the behaviour. */
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

/** One server for each behaviour of the probe. */
export const FLAWS: readonly FlawCase[] = [
  {
    lacks: 'server',
    how: 'is too old',
    flaw: () => changing('buildInfo', (reply) => Object.assign(reply, { version: '6.0.20' })),
  },
  {
    lacks: 'duplicate keys',
    how: 'does not name the index that refuses a row',
    flaw: () =>
      changing('insert', (reply) => {
        for (const error of reply.writeErrors ?? []) delete error.keyPattern;
      }),
  },
  {
    lacks: 'freed keys',
    how: 'keeps the keys of deleted rows',
    flaw: () => answering((command) => nameOf(command) === 'delete', DONE),
  },
  {
    lacks: 'partial unique indexes',
    how: 'creates partial unique indexes over all rows',
    also: ['freed keys', 'index definitions'],
    flaw: () => ({
      command(command) {
        if (nameOf(command) === 'createIndexes')
          for (const index of command.indexes) if (index.unique === true) delete index.partialFilterExpression;
        return undefined;
      },
    }),
  },
  {
    lacks: 'one winner per key',
    how: 'acknowledges two transactions that insert one key',
    flaw: () => {
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
    },
  },
  {
    lacks: 'index definitions',
    how: 'does not list which indexes are unique',
    flaw: () =>
      changing('listIndexes', (reply) => {
        for (const index of reply.cursor.firstBatch) delete index.unique;
      }),
  },
  {
    lacks: 'server time',
    how: 'has a clock in updates that is an hour ahead',
    flaw: () => rewriting((part) => (part === '$$NOW' ? new Date(Date.now() + HOUR_MS) : part)),
  },
  {
    lacks: 'literals',
    how: 'evaluates $literal',
    flaw: () => rewriting((part) => (isPlain(part) && '$literal' in part ? part.$literal : part)),
  },
  {
    lacks: 'guarded updates',
    how: 'treats every condition as true',
    also: ['concurrent updates'],
    flaw: () => rewriting((part) => (isPlain(part) && '$cond' in part ? part.$cond[1] : part)),
  },
  {
    lacks: 'concurrent updates',
    how: 'loses every other of several concurrent updates of a row',
    flaw: () => {
      let counted = 0;
      return answering((command) => JSON.stringify(command).includes('["$count",1]') && counted++ % 2 === 1, DONE);
    },
  },
  {
    lacks: 'retried writes',
    how: 'applies a repeated update twice',
    flaw: () => ({
      command(command) {
        if (nameOf(command) === 'update' && !isInTransaction(command)) delete command.txnNumber;
        return undefined;
      },
    }),
  },
  {
    lacks: 'atomic transactions',
    how: 'commits aborted transactions',
    flaw: () => ({
      command(command) {
        if (nameOf(command) !== 'abortTransaction') return undefined;
        const { abortTransaction: _, ...rest } = command;
        for (const name of Object.keys(command)) delete command[name];
        // The name of a command is its first field.
        Object.assign(command, { commitTransaction: 1 }, rest);
        return undefined;
      },
    }),
  },
  {
    lacks: 'write conflicts',
    how: 'does not label conflicts',
    also: ['one winner per key'],
    flaw: () => ({
      reply(reply) {
        if (codesOf(reply).includes(CONFLICT)) delete reply.errorLabels;
      },
    }),
  },
  {
    lacks: 'ended sessions',
    how: 'acknowledges killSessions and does nothing',
    flaw: () => answering((command) => nameOf(command) === 'killSessions', { ok: 1 }),
  },
  {
    lacks: 'majority writes',
    how: 'ignores write concerns',
    flaw: () => ({
      command(command) {
        delete command.writeConcern;
        return undefined;
      },
    }),
  },
  {
    lacks: 'reads after writes',
    how: 'returns no operation time',
    flaw: () => ({
      reply(reply) {
        delete reply.operationTime;
      },
    }),
  },
];

/** Returns the name of a command, which is its first field. */
export function nameOf(command: Document): string {
  return Object.keys(command)[0] ?? '';
}

/** Returns whether a command is part of a transaction. */
export function isInTransaction(command: Document): boolean {
  return command.autocommit === false;
}

/** Returns a reply that refuses a command. */
export function refusal(code: number, errmsg: string): Document {
  return { ok: 0, code, errmsg };
}

/** Returns a server that answers these commands with `answer`, without effect. */
function answering(isIt: (command: Document) => boolean, answer: Document): Flaw {
  return { command: (command) => (isIt(command) ? answer : undefined) };
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
  return {
    command(command) {
      if (Array.isArray(command.update)) command.update = rewrite(command.update);
      for (const update of command.updates ?? []) if (Array.isArray(update.u)) update.u = rewrite(update.u);
      return undefined;
    },
  };
}

/** Replaces the contents of a reply. */
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
