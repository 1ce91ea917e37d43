import type { JobRow } from '#infra/mongo/classifier/collections.ts';
import { markContext, storeContexts } from '#infra/mongo/classifier/job-round.ts';
import { findSelection } from '#infra/mongo/classifier/jobs.ts';
import { CONTEXT_LIMIT_MS, loadQuestions, QuestionBankFailed } from '#infra/neighbours/question-bank.ts';
import type { JobRound } from '#shared/classifier/commands.ts';
import { BATCH_SIZE } from '#shared/classifier/job.ts';
import { contextTextOf } from '#shared/classifier/new-job.ts';
import type { Run, WorkerDeps } from '#workers/actor.ts';

/** One run of a job's command, in the round that it names. */
export interface JobRun extends Run<'classifier'> {
  at: JobRound;
}

/** Number of batches whose questions one transaction stores. */
const CHUNK = 50;

/** Returns true if prompts can be built: the questions are loaded, or the job runs with ids only. */
export function hasContext(job: JobRow, config: WorkerDeps['config']): boolean {
  if (job.context === 'LOADED') return true;
  // If a bank was configured since the job was posted, load from it, unless a batch has already finished with ids only.
  return job.context === 'NONE' && (config.neighbours.questionBank === null || job.counts.batchesDone > 0);
}

/**
 * Loads the questions of a job and stores them chunk by chunk. The last chunk marks the job as LOADED.
 * @throws QuestionBankFailed, RoundOver
 */
export async function loadContext(deps: Pick<WorkerDeps, 'mongo' | 'config'>, run: JobRun, job: JobRow): Promise<void> {
  const { mongo, config } = deps;
  const bank = config.neighbours.questionBank;
  if (bank === null) throw new QuestionBankFailed('is not configured');
  const { questionIds } = await findSelection(mongo, job._id, run.session);
  const known = await loadQuestions(bank, { ...job, questionIds }, { timeoutMs: CONTEXT_LIMIT_MS, signal: run.signal });
  const { at } = run;
  for (let from = 0; from < job.counts.batchesTotal; from += CHUNK) {
    const to = Math.min(from + CHUNK, job.counts.batchesTotal);
    const texts = new Map<number, string>();
    for (let index = from; index < to; index++) {
      const ids = questionIds.slice(index * BATCH_SIZE, (index + 1) * BATCH_SIZE);
      texts.set(index, contextTextOf(ids, known));
    }
    await run.checkpoint({ phase: 'questions', last: to - 1 }, async (session) => {
      await storeContexts(mongo, at, texts, session);
      if (to === job.counts.batchesTotal) await markContext(mongo, at, 'LOADED', session);
    });
  }
}
