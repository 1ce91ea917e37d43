import t, { type Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { roundOrder } from '#shared/classifier/commands.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { postJob, unlimitedSlots } from '#testing/stored/stored-model-work.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { aiJobBatches, aiJobSelections, aiJobs } from './collections.ts';
import { cancelJob, retryJob } from './jobs.ts';

const OWNER = { actorId: 'teacher-1', organizationId: 'org-1' };
/** More writes than any of the changes has. */
const MAX_POINTS = 20;

/** Runs `work` in a process that dies at each of its writes in turn, and checks what it has stored with `left`. */
async function dieAtEach(
  t: Test,
  leastPoints: number,
  scene: (mongo: TestMongo) => Promise<{ work: (dying: Mongo) => Promise<unknown>; left: () => Promise<void> }>,
): Promise<void> {
  for (const when of ['before', 'after'] as const) {
    const deaths: string[] = [];
    for (let point = 1; point < MAX_POINTS; point++) {
      const mongo = await openTestMongo(t);
      const { work, left } = await scene(mongo);
      const dying = dyingProcess(mongo, point, when);
      await work(dying.mongo).catch((error: Error) => t.match(error, { message: 'the process is dead' }));
      await left();
      const diedAt = dying.diedAt();
      if (diedAt === null) break;
      deaths.push(diedAt);
    }
    t.ok(deaths.length >= leastPoints, deaths.join(', '));
  }
}

t.test('a job is stored with its questions and its command, or not at all', (t) =>
  dieAtEach(t, 5, async (mongo) => ({
    work: (dying) => postJob(dying),
    async left() {
      const jobs = await aiJobs(mongo).countDocuments({});
      const [selections, batches, commands] = [
        await aiJobSelections(mongo).countDocuments({}),
        await aiJobBatches(mongo).countDocuments({}),
        await mailboxOf(mongo, 'classifier').countDocuments({}),
      ];
      t.strictSame({ selections, batches, commands }, { selections: jobs, batches: 2 * jobs, commands: jobs });
    },
  })),
);

t.test('a job is restarted together with its command, or stays as it is', (t) =>
  dieAtEach(t, 3, async (mongo) => {
    const { subject } = await postJob(mongo);
    await cancelJob(mongo, subject, OWNER);
    const retry = (on: Mongo) =>
      retryJob(on, subject, OWNER, unlimitedSlots(), (at) =>
        newCommand({ ...roundOrder(at, OWNER.organizationId), maxAttempts: 3, now: Date.now() }),
      );
    return {
      work: retry,
      async left() {
        const { status, round } = (await aiJobs(mongo).findOne({ _id: subject })) ?? {};
        const commands = await mailboxOf(mongo, 'classifier').countDocuments({ subject });
        t.strictSame({ status, commands }, { status: round === 1 ? 'CANCELLED' : 'PENDING', commands: round });
        if (round === 1) t.match(await retry(mongo), { job: { status: 'PENDING', round: 2 } });
      },
    };
  }),
);
