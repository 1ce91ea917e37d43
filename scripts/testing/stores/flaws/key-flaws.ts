import type { Document } from 'mongodb';
import {
  codesOf,
  DONE,
  type FlawCase,
  inJson,
  isInTransaction,
  nameOf,
  refusal,
  replaceReply,
  transactionOf,
} from './flaw-case.ts';

const DUPLICATE = 11000;
const CONFLICT = 112;

/** Servers with faulty unique keys. */
export const KEY_FLAWS: readonly FlawCase[] = [
  {
    lacks: 'duplicate keys',
    how: 'does not name the index that refuses a row',
    flaw: () => ({
      reply(reply) {
        for (const error of reply.writeErrors ?? []) delete error.keyPattern;
      },
    }),
  },
  {
    lacks: 'duplicate keys',
    how: 'creates unique indexes as plain ones',
    also: ['duplicate keys by updates', 'one winner per key', 'index definitions', 'duplicate keys in transactions'],
    flaw: () => ({
      command(command) {
        for (const index of nameOf(command) !== 'createIndexes' ? [] : command.indexes) delete index.unique;
        return undefined;
      },
    }),
  },
  ...(['$addToSet', '"$set":{"live":true}'] as const).map((text) => ({
    lacks: 'duplicate keys by updates',
    how: `acknowledges an update into a taken key (${text})`,
    flaw: () => ({
      reply(reply: Document, command: Document) {
        const isIt = nameOf(command) === 'update' && inJson(command, text) && !isInTransaction(command);
        if (isIt && codesOf(reply).includes(DUPLICATE)) replaceReply(reply, DONE);
      },
    }),
  })),
  {
    lacks: 'freed keys',
    how: 'keeps a key taken after an update changed the key of its row',
    flaw: () => staleClaims((command) => nameOf(command) === 'update' && inJson(command, ' moved')),
  },
  {
    lacks: 'freed keys',
    how: 'keeps a key taken after an update removed its row from a partial index',
    flaw: () => staleClaims((command) => nameOf(command) === 'update' && inJson(command, '"$unset":"live"')),
  },
  {
    lacks: 'freed keys',
    how: 'keeps a key taken after its row was deleted',
    flaw: () => staleClaims((command) => nameOf(command) === 'delete'),
  },
  {
    lacks: 'partial unique indexes',
    how: 'creates partial unique indexes over all rows',
    also: ['duplicate keys by updates', 'freed keys', 'one winner per key', 'index definitions'],
    flaw: () => ({
      command(command) {
        const indexes = nameOf(command) !== 'createIndexes' ? [] : command.indexes;
        for (const index of indexes) if (index.unique === true) delete index.partialFilterExpression;
        return undefined;
      },
    }),
  },
  {
    lacks: 'one winner per key',
    how: 'acknowledges two transactions that insert one key',
    flaw: () => lostWrites((command) => nameOf(command) === 'insert' && command.insert.endsWith('_keys')),
  },
  {
    lacks: 'one winner per key',
    how: 'acknowledges two transactions that update rows to one key',
    flaw: () => lostWrites((command) => nameOf(command) === 'update' && command.update.endsWith('_keys')),
  },
  {
    lacks: 'index definitions',
    how: 'creates expiring indexes as plain ones',
    flaw: () => ({
      command(command) {
        for (const index of nameOf(command) !== 'createIndexes' ? [] : command.indexes) delete index.expireAfterSeconds;
        return undefined;
      },
    }),
  },
  {
    lacks: 'index definitions',
    how: 'does not list which indexes are unique',
    flaw: () => ({
      reply(reply, command) {
        if (nameOf(command) === 'listIndexes') for (const index of reply.cursor.firstBatch) delete index.unique;
      },
    }),
  },
  {
    lacks: 'index definitions',
    how: 'refuses expiring indexes with a filter',
    flaw: () => ({
      command: (command) =>
        nameOf(command) === 'createIndexes' && inJson(command, 'expireAfterSeconds')
          ? refusal(67, 'expireAfterSeconds and partialFilterExpression exclude each other')
          : undefined,
    }),
  },
];

/** Returns a server on which a key stays taken for ever after a command that `isFreed` accepts has freed it. */
function staleClaims(isFreed: (command: Document) => boolean): ReturnType<FlawCase['flaw']> {
  const keyOf = new Map<unknown, unknown>();
  const stale = new Set<unknown>();
  return {
    command(command) {
      const filters = [...(command.updates ?? []), ...(command.deletes ?? [])].map(({ q }) => q._id);
      if (isFreed(command)) for (const id of filters) if (keyOf.has(id)) stale.add(keyOf.get(id));
      const [row] = nameOf(command) !== 'insert' || isInTransaction(command) ? [] : command.documents;
      if (row?.key === undefined) return undefined;
      keyOf.set(row._id, row.key);
      const error = { index: 0, code: DUPLICATE, errmsg: 'E11000 duplicate key error', keyPattern: { key: 1 } };
      return stale.has(row.key) ? { ok: 1, n: 0, writeErrors: [error] } : undefined;
    },
  };
}

/** Returns a server that acknowledges such a write in a transaction, and its commit, although another transaction was first. */
function lostWrites(isWrite: (command: Document) => boolean | undefined): ReturnType<FlawCase['flaw']> {
  const lost = new Set<string>();
  return {
    reply(reply, command) {
      if (isInTransaction(command) && isWrite(command) === true && codesOf(reply).includes(CONFLICT)) {
        lost.add(transactionOf(command));
        replaceReply(reply, DONE);
      }
      if (nameOf(command) === 'commitTransaction' && lost.has(transactionOf(command))) replaceReply(reply, { ok: 1 });
    },
  };
}
