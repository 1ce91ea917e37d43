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

const CONFLICT = 112;
const DUPLICATE = 11000;
const NO_SUCH_TRANSACTION = 251;
const TRANSIENT = 'TransientTransactionError';

/** Servers with faulty transactions, sessions or reads, and servers of the wrong kind or version. */
export const TRANSACTION_FLAWS: readonly FlawCase[] = [
  {
    lacks: 'server',
    how: 'is a standalone server',
    flaw: () => ({
      reply(reply, command) {
        // Leave the driver's own hello unchanged: otherwise it would send no transactions.
        if (nameOf(command) === 'hello' && command.lsid !== undefined) delete reply.setName;
      },
    }),
  },
  {
    lacks: 'server',
    how: 'is too old',
    flaw: () => ({
      reply(reply, command) {
        if (nameOf(command) === 'buildInfo') reply.version = '6.0.20';
      },
    }),
  },
  {
    lacks: 'atomic transactions',
    how: 'commits aborted transactions',
    also: ['time limits'],
    flaw: () => ({
      command(command) {
        if (nameOf(command) === 'abortTransaction') renameCommand(command, 'commitTransaction');
        return undefined;
      },
    }),
  },
  {
    lacks: 'atomic transactions',
    how: 'supports transactions within one collection only',
    also: ['duplicate keys in transactions'],
    flaw: () => {
      const first = new Map<string, unknown>();
      return {
        command(command) {
          if (!isInTransaction(command) || nameOf(command) !== 'insert') return undefined;
          const key = transactionOf(command);
          if (!first.has(key)) first.set(key, command.insert);
          return first.get(key) === command.insert
            ? undefined
            : refusal(263, 'transactions are limited to one collection');
        },
      };
    },
  },
  {
    lacks: 'isolated transactions',
    how: 'reads the newest rows in a transaction',
    flaw: () => ({
      command(command) {
        if (nameOf(command) !== 'find' || !isInTransaction(command) || command.startTransaction === true)
          return undefined;
        for (const name of ['autocommit', 'txnNumber']) delete command[name];
        return undefined;
      },
    }),
  },
  {
    lacks: 'isolated transactions',
    how: 'shows uncommitted rows',
    also: ['duplicate keys in transactions'],
    flaw: () => {
      const uncommitted = new Map<unknown, Document>();
      return {
        command(command) {
          if (isInTransaction(command)) for (const row of command.documents ?? []) uncommitted.set(row._id, row);
          return undefined;
        },
        reply(reply, command) {
          const row = uncommitted.get(command.filter?._id);
          if (row !== undefined && reply.cursor?.firstBatch.length === 0) reply.cursor.firstBatch.push(row);
        },
      };
    },
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
    lacks: 'write conflicts',
    how: 'lets the last writer win',
    flaw: () => ({
      reply(reply, command) {
        const isRow = nameOf(command) === 'update' && command.update.endsWith('_rows') && isInTransaction(command);
        if (isRow && codesOf(reply).includes(CONFLICT)) replaceReply(reply, DONE);
      },
    }),
  },
  {
    lacks: 'write conflicts',
    how: 'lets a transaction overwrite a row that changed after its snapshot',
    flaw: () => ({
      reply(reply, command) {
        if (inJson(command, '"by":"reader"') && codesOf(reply).includes(CONFLICT)) replaceReply(reply, DONE);
      },
    }),
  },
  {
    lacks: 'duplicate keys in transactions',
    how: 'labels a duplicate key as transient',
    flaw: () => ({
      reply(reply, command) {
        if (!isInTransaction(command)) return;
        for (const error of reply.writeErrors ?? []) if (error.code === DUPLICATE) error.errorLabels = [TRANSIENT];
      },
    }),
  },
  {
    lacks: 'repeated commits',
    how: 'forgets a transaction once it is committed',
    flaw: () => {
      const committed = new Set<string>();
      return {
        command(command) {
          if (nameOf(command) !== 'commitTransaction') return undefined;
          if (committed.has(transactionOf(command))) return refusal(NO_SUCH_TRANSACTION, 'no such transaction');
          committed.add(transactionOf(command));
          return undefined;
        },
      };
    },
  },
  {
    lacks: 'ended sessions',
    how: 'acknowledges killSessions and does nothing',
    flaw: () => ({ command: (command) => (nameOf(command) !== 'killSessions' ? undefined : { ok: 1 }) }),
  },
  {
    lacks: 'ended sessions',
    how: 'refuses killSessions, as small tiers of Atlas do',
    flaw: () => ({
      command: (command) =>
        nameOf(command) !== 'killSessions' ? undefined : refusal(8000, '(AtlasError) not allowed in this tier'),
    }),
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
    lacks: 'majority writes',
    how: 'loses a write that it acknowledged',
    flaw: () => ({
      command: (command) =>
        nameOf(command) === 'insert' && inJson(command, '"_id":"majority writes') ? { ok: 1, n: 1 } : undefined,
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
  {
    lacks: 'reads after writes',
    how: 'refuses reads after an operation time',
    flaw: () => ({
      command: (command) =>
        command.readConcern?.afterClusterTime === undefined
          ? undefined
          : refusal(72, 'afterClusterTime is not supported'),
    }),
  },
  {
    lacks: 'snapshot reads',
    how: 'supports snapshots in transactions only',
    flaw: () => ({
      command: (command) =>
        command.readConcern?.level === 'snapshot' && !isInTransaction(command)
          ? refusal(72, 'readConcern snapshot outside of a transaction is not supported')
          : undefined,
    }),
  },
  {
    lacks: 'snapshot reads',
    how: 'reads the newest rows into each batch',
    flaw: () => ({
      reply(reply, command) {
        if (nameOf(command) === 'getMore') for (const row of reply.cursor.nextBatch) row.place = 'after';
      },
    }),
  },
  {
    lacks: 'hinted reads',
    how: 'refuses hints',
    flaw: () => ({
      command: (command) => (command.hint === undefined ? undefined : refusal(2, 'hint is not supported')),
    }),
  },
  {
    lacks: 'hinted reads',
    how: 'ignores the requested order',
    flaw: () => ({
      reply(reply, command) {
        if (command.hint !== undefined && nameOf(command) === 'find') reply.cursor.firstBatch.reverse();
      },
    }),
  },
];

/** Renames a command in place. Its name is its first field. */
function renameCommand(command: Document, to: string): void {
  const [, ...rest] = Object.entries(command);
  for (const name of Object.keys(command)) delete command[name];
  Object.assign(command, { [to]: 1 }, Object.fromEntries(rest));
}
