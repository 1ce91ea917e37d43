import { aiJobs, generationHolds, generations, type JobRow } from '#infra/mongo/classifier/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { roundKey, settlementOrder } from '#shared/classifier/commands.ts';
import type { Generation } from '#shared/classifier/generation.ts';
import { BOUND, type FoundCommand, findingOf, type Invariant, inParts, liveByKey, SAMPLE } from './invariant.ts';

/** Promises about paid generations and jobs. */
export const CLASSIFIER_INVARIANTS: readonly Invariant[] = [
  {
    name: 'an unpaid generation has a settlement command that is not done',
    remedy: 'compare the preview ids with the usage service and the wallet, charge by hand, and report it',
    async find(mongo) {
      const { rows, commandOf } = await newestGenerations(mongo);
      return findingOf(rows, (row) => row.state === 'PENDING' && ['DONE', undefined].includes(commandOf(row)?.status));
    },
  },
  {
    name: 'a paid generation names its price and its time',
    remedy: 'compare the preview ids with the wallet, and report it',
    async find(mongo) {
      const { rows } = await newestGenerations(mongo);
      return findingOf(rows, ({ state, charge, settledAt }) => state === 'SETTLED' && (!charge || !settledAt));
    },
  },
  {
    name: 'a hold is the price of an unpaid generation',
    remedy: 'delete the hold once the generation is known to be paid: until its end it lowers what the wallet permits',
    async find(mongo, now) {
      const rows = await generationHolds(mongo)
        .find({}, { ...BOUND, sort: { _id: 1 }, hint: { _id: 1 }, limit: SAMPLE + 1 })
        .toArray();
      const ids = rows.flatMap(({ holds }) => holds.map(({ previewId }) => previewId));
      const found = await inParts(ids, (part) =>
        generations(mongo)
          .find<Held>({ _id: { $in: part } }, { ...BOUND, projection: { state: 1, charge: 1 } })
          .toArray(),
      );
      const byId = new Map(found.map((row) => [row._id, row]));
      return findingOf(rows, ({ holds }) =>
        holds.some(({ previewId, credits, tokens, until }) => {
          if (credits < 0 || tokens < 0) return true;
          if (until.getTime() <= now) return false;
          const row = byId.get(previewId);
          if (row?.state === 'SETTLED') return true;
          return row?.state === 'PENDING' && (row.charge?.credits !== credits || row.charge.tokens !== tokens);
        }),
      );
    },
  },
  {
    name: 'an open job has a command that is not done',
    remedy: 'cancel the job with its route and retry it; the slots of its owner are then free again',
    async find(mongo) {
      const rows = await aiJobs(mongo)
        .find<Pick<JobRow, '_id' | 'round'>>(
          { open: true },
          { ...BOUND, hint: 'open_jobs', projection: { round: 1 }, limit: SAMPLE + 1 },
        )
        .toArray();
      const keyOf = ({ _id: jobId, round }: Pick<JobRow, '_id' | 'round'>) => roundKey({ jobId, round });
      const commands = await liveByKey(mongo, COMMANDS, rows.map(keyOf));
      // The sweep ends the job of a dead command.
      return findingOf(rows, (job) => ['DONE', undefined].includes(commands.get(keyOf(job))?.status));
    },
  },
];

type Priced = Pick<Generation, '_id' | 'key' | 'state' | 'charge' | 'settledAt'>;
type Held = Pick<Generation, '_id' | 'state' | 'charge'>;

/** Returns the newest generations, whose ids are in the order of their making, and their settlement commands. */
async function newestGenerations(
  mongo: Mongo,
): Promise<{ rows: Priced[]; commandOf: (row: Priced) => FoundCommand | undefined }> {
  const rows = await generations(mongo)
    .find<Priced>(
      {},
      {
        ...BOUND,
        sort: { _id: -1 },
        hint: { _id: 1 },
        projection: { key: 1, state: 1, charge: 1, settledAt: 1 },
        limit: SAMPLE + 1,
      },
    )
    .toArray();
  const keyOf = (row: Priced) => settlementOrder(row).key;
  const owed = rows.filter(({ state }) => state !== 'MAKING');
  const commands = await liveByKey(mongo, COMMANDS, owed.map(keyOf));
  return { rows, commandOf: (row) => commands.get(keyOf(row)) };
}
