import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Progress } from '#scripts/progress.ts';
import { CallFailed, generatePaid, newBook, releaseExam, submit } from './book.ts';
import { chooseRelease, unpackRelease } from './earlier-release.ts';
import { makeEarlierStates } from './earlier-states.ts';
import { type Load, startLoad, workOnce } from './load.ts';
import { openStage, type Stage } from './stage.ts';
import { sum, type Verdict, verifyBook } from './verify.ts';

export interface RollingPlan {
  root: string;
  mongodbUrl: string;
  redisUrl: string;
  from?: string | undefined;
  /** Folder of the present release; default `root`. */
  present?: string | undefined;
  students: number;
  /** Sittings that each mixture of releases finishes at least. */
  sittings: number;
  /** Saves of each attempt that the earlier release left open, in each mixture. */
  saves: number;
  /** Rolling restarts of the present release at the end. */
  restarts: number;
  /** See `unpackRelease`. */
  mayShareDirect: boolean;
}

export interface RollingResult {
  verdicts: Verdict[];
  /** States that the earlier release left behind, with counts. */
  states: [string, number][];
}

/** Runs an earlier release and the present one on one database. @throws NoEarlierRelease if the history has none */
export async function runRolling(plan: RollingPlan, progress: Progress): Promise<RollingResult> {
  const earlier = chooseRelease(plan.root, plan.from);
  const { name, why, schema } = earlier;
  progress.line(`earlier release: ${name} (${why}), schema ${schema ?? 'unknown'}`);
  const folder = mkdtempSync(path.join(tmpdir(), 'examhall-rolling-'));
  let stage: Stage | undefined;
  try {
    const code = path.join(folder, 'earlier');
    const packages = unpackRelease(plan.root, earlier, code, { mayShareDirect: plan.mayShareDirect });
    progress.line(`its packages: ${packages}`);
    const folders = { earlier: code, present: plan.present ?? plan.root };
    const { mongodbUrl, redisUrl } = plan;
    stage = await openStage({ mongodbUrl, redisUrl, folders });
    return await deployOrExplain(stage, plan, progress);
  } finally {
    await stage?.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Deploys. If a client could not finish a call, returns what failed at the gateway and in the processes. */
async function deployOrExplain(stage: Stage, plan: RollingPlan, progress: Progress): Promise<RollingResult> {
  try {
    return await deploy(stage, plan, progress);
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
    const calls = [error.message, ...stage.gateway.failures];
    return {
      states: [],
      verdicts: [
        { what: 'no call failed', checked: sum(stage.gateway.served.values()), faults: calls },
        { what: 'processes ended in order, logged no error', checked: 1, faults: stage.faults() },
      ],
    };
  }
}

/** Deploys the present release over the earlier one, in every order, under load. */
async function deploy(stage: Stage, plan: RollingPlan, progress: Progress): Promise<RollingResult> {
  const { gateway } = stage;
  const book = newBook();
  let steps = 0;
  const say = (part: string) => {
    if (steps++ > 0) progress.step();
    progress.line(`    ${part}`);
  };

  progress.begin('earlier release alone', 4);
  await stage.migrate('earlier');
  await stage.startDoor('earlier');
  const { open, states } = await makeEarlierStates(stage, book, say);
  progress.end(states.map(([what, count]) => `${count} ${what}`).join(', '));

  const load = startLoad(book, gateway.url, plan.students);
  const mix = async (title: string, prepare: () => Promise<unknown>) => {
    progress.begin(title, plan.sittings);
    await prepare();
    const from = load.finished();
    await Promise.all([workOnce(book, gateway.url, title, open, plan.saves), more(load, plan.sittings, progress)]);
    progress.end(`${load.finished() - from} sittings`);
  };
  await mix('old door, new workers', async () => {
    await stage.migrate('present');
    await expireHeldGenerations(stage);
    await stage.startWorkers('present');
    await generatePaid(book, gateway.url, 'held by a killed front door');
  });
  await mix('new door, old workers', async () => {
    await stage.startDoor('present');
    await stage.stopDoor('earlier');
    await stage.startWorkers('earlier');
    await stage.stopWorkers('present');
  });
  await mix('both doors, both workers', async () => {
    await Promise.all([stage.startWorkers('present'), stage.startDoor('earlier')]);
  });
  await mix('new release alone', async () => {
    await stage.stopDoor('earlier');
    await stage.stopWorkers('earlier');
  });
  if (plan.restarts > 0) await restartAll(stage, plan.restarts, progress);

  progress.begin('check', 1);
  for (const sitting of open) await submit(gateway.url, sitting);
  await load.end();
  for (const examId of book.releases.keys()) await releaseExam(book, gateway.url, examId);
  const verdicts = await verifyBook(stage, book);
  progress.end(`${verdicts.length} promises`);
  return { verdicts, states };
}

async function more(load: Load, count: number, progress: Progress): Promise<void> {
  for (let done = 0; done < count; done++) {
    await load.more(1);
    progress.step();
  }
}

/** Restarts the processes of the present release, one after the other, under load: its two front doors in turn, and its workers. */
async function restartAll(stage: Stage, restarts: number, progress: Progress): Promise<void> {
  progress.begin('rolling restarts', restarts);
  await stage.startDoor('present', { slot: 2 });
  for (let done = 0; done < restarts; done++) {
    const slot = 1 + (done % 2);
    await Promise.all([
      stage.stopDoor('present', slot).then(() => stage.startDoor('present', { slot })),
      done % 2 === 1 ? stage.restartWorkers('present') : undefined,
    ]);
    progress.step();
  }
  progress.end(`${restarts} of each`);
}

/** Ends the leases that a killed front door held, as time would. */
async function expireHeldGenerations({ mongo }: Stage): Promise<void> {
  const rows = mongo.db.collection('ai_generations');
  const held = (await rows.find({}).toArray()).filter(({ state }) => state === 'MAKING');
  for (const { _id } of held) await rows.updateOne({ _id }, { $set: { leaseUntil: new Date(0) } });
}
