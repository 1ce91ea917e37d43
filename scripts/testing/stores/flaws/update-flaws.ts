import type { Document } from 'mongodb';
import {
  codesOf,
  DONE,
  type FlawCase,
  inJson,
  isInTransaction,
  isPlain,
  nameOf,
  refusal,
  replaceReply,
  rewriteUpdates,
} from './flaw-case.ts';

const HOUR_MS = 3_600_000;
const LIMIT_EXCEEDED = 50;
const UNKNOWN_EXPRESSION = 168;

/** Servers that execute updates, or the time in them, wrongly. */
export const UPDATE_FLAWS: readonly FlawCase[] = [
  {
    lacks: 'server time',
    how: 'has a clock in updates that is an hour ahead',
    flaw: () => clock(() => Date.now() + HOUR_MS),
  },
  { lacks: 'server time', how: 'has a stopped clock in updates', flaw: stoppedClock },
  {
    lacks: 'server time',
    how: 'reads its clock anew in each stage of an update',
    also: ['time arithmetic'],
    flaw: () => {
      let reads = 0;
      return rewriting((part) => (part === '$$NOW' ? new Date(Date.now() + reads++) : part));
    },
  },
  {
    lacks: 'server time',
    how: 'returns no local time',
    flaw: () => ({
      reply(reply, command) {
        if (nameOf(command) === 'hello') delete reply.localTime;
      },
    }),
  },
  {
    lacks: 'time arithmetic',
    how: 'has no $toLong',
    flaw: () => unknownExpression('$toLong'),
  },
  {
    lacks: 'time arithmetic',
    how: 'sorts null after numbers',
    flaw: () =>
      rewriting((part) => (isPlain(part) && part.$toLong === '$never' ? { $literal: Number.MAX_SAFE_INTEGER } : part)),
  },
  {
    lacks: 'literals',
    how: 'evaluates $literal',
    flaw: () => rewriting((part) => (isPlain(part) && '$literal' in part ? part.$literal : part)),
  },
  {
    lacks: 'guarded updates',
    how: 'treats every condition as true',
    also: ['concurrent updates', 'update operators'],
    flaw: () => rewriting((part) => (isPlain(part) && '$cond' in part ? part.$cond[1] : part)),
  },
  {
    lacks: 'guarded updates',
    how: 'counts every matched row as modified',
    flaw: () => ({
      reply(reply, command) {
        if (nameOf(command) === 'update' && reply.n !== undefined) reply.nModified = reply.n;
      },
    }),
  },
  {
    lacks: 'guarded updates',
    how: 'returns the row as it was before the update',
    also: ['concurrent updates'],
    flaw: () => ({
      command(command) {
        if (nameOf(command) === 'findAndModify' && inJson(command, '"stamp"')) delete command.new;
        return undefined;
      },
    }),
  },
  {
    lacks: 'guarded updates',
    how: 'keeps the first stage of an update whose second one fails',
    flaw: () => ({
      command(command) {
        if (inJson(command, '[1,"$zero"]')) command.updates[0].u.pop();
        return undefined;
      },
      reply(reply, command) {
        if (inJson(command, '{"a":"changed"}')) replaceReply(reply, refusal(2, "can't $divide by zero"));
      },
    }),
  },
  {
    lacks: 'concurrent updates',
    how: 'loses all but one of several concurrent updates of a row',
    flaw: () =>
      atOnce(
        (command) => (nameOf(command) === 'update' && !isInTransaction(command) ? command.updates[0].q._id : undefined),
        () => DONE,
      ),
  },
  {
    lacks: 'concurrent updates',
    how: 'accepts every one of several concurrent claims of a row',
    flaw: () =>
      atOnce(
        (command) => (nameOf(command) === 'findAndModify' ? command.query._id : undefined),
        ({ query, update }) => {
          const value = { ...query, stamp: update[0].$set.stamp.$cond[1].$literal };
          return { ok: 1, value, lastErrorObject: { n: 1, updatedExisting: true } };
        },
      ),
  },
  { lacks: 'update operators', how: 'has no $objectToArray', flaw: () => unknownExpression('$objectToArray') },
  {
    lacks: 'update operators',
    how: 'applies $setOnInsert to rows that exist',
    flaw: () => ({
      command(command) {
        for (const update of command.updates ?? []) {
          if (update.u.$setOnInsert !== undefined) update.u = { $set: update.u.$setOnInsert };
        }
        return undefined;
      },
    }),
  },
  {
    lacks: 'retried writes',
    how: 'applies a repeated update twice',
    flaw: () => forgettingNumbers((command) => nameOf(command) === 'update'),
  },
  {
    lacks: 'retried writes',
    how: 'applies a repeated findAndModify twice',
    flaw: () => forgettingNumbers((command) => nameOf(command) === 'findAndModify'),
  },
  {
    lacks: 'retried writes',
    how: 'answers a repeated findAndModify without its row',
    flaw: () => {
      const seen = new Set<string>();
      return {
        reply(reply, command) {
          const key = JSON.stringify([command.lsid, command.txnNumber]);
          if (nameOf(command) !== 'findAndModify') return;
          if (seen.has(key)) reply.value = null;
          seen.add(key);
        },
      };
    },
  },
  {
    lacks: 'time limits',
    how: 'acknowledges a write that exceeded its time limit',
    flaw: () => ({
      reply(reply, command) {
        if (nameOf(command) === 'update' && codesOf(reply).includes(LIMIT_EXCEEDED)) replaceReply(reply, DONE);
      },
    }),
  },
];

type Flaw = ReturnType<FlawCase['flaw']>;

function rewriting(change: (part: unknown) => unknown): Flaw {
  return {
    command(command) {
      rewriteUpdates(command, change);
      return undefined;
    },
  };
}

/** Returns a server whose `$$NOW` is the result of `read`, which is called once for each command. */
function clock(read: () => number): Flaw {
  return {
    command(command) {
      const at = new Date(read());
      rewriteUpdates(command, (part) => (part === '$$NOW' ? at : part));
      return undefined;
    },
  };
}

function stoppedClock(): Flaw {
  const at = Date.now();
  return clock(() => at);
}

function unknownExpression(name: string): Flaw {
  return {
    command: (command) =>
      ['update', 'findAndModify'].includes(nameOf(command)) && inJson(command, `{"${name}":`)
        ? refusal(UNKNOWN_EXPRESSION, `Unrecognized expression '${name}'`)
        : undefined,
  };
}

/** Returns a server that answers with `answer`, without effect, while another write of the same row runs. `rowOf` selects the commands. */
function atOnce(rowOf: (command: Document) => unknown, answer: (command: Document) => Document): Flaw {
  const underWay = new Set<unknown>();
  return {
    command(command) {
      const row = rowOf(command);
      if (row === undefined) return undefined;
      if (underWay.has(row)) return answer(command);
      underWay.add(row);
      return undefined;
    },
    reply: (_, command) => void underWay.delete(rowOf(command)),
  };
}

function forgettingNumbers(isIt: (command: Document) => boolean): Flaw {
  return {
    command(command) {
      if (isIt(command) && !isInTransaction(command)) delete command.txnNumber;
      return undefined;
    },
  };
}
