import t from 'tap';
import type { ClassifiedItem, Job, JobErrors } from '../../../clients/typescript/src/index.ts';
import { verifyJob } from './classify-paper.ts';

const IDS = ['q1', 'q2', 'q3', 'q4', 'q5', 'q6'];

function item(questionId: string): ClassifiedItem {
  const streamed = { value: 'x', confidence: 0.5 };
  return { questionId, suggestions: { difficulty: streamed, topic: streamed }, accepted: false };
}

function finished(items: ClassifiedItem[]): Job {
  const progress = { total: 6, processed: 6, succeeded: 6, failed: 0, batchesTotal: 2, batchesDone: 2, percent: 100 };
  const result = { items, errorCount: 0, usage: { inputTokens: 1, outputTokens: 1 } };
  return {
    id: 'job-1',
    status: 'COMPLETED',
    scope: { questionIds: IDS },
    progress,
    result,
    error: null,
    revision: 9,
  } as unknown as Job;
}

/** Returns the faults that the demo reports if the service returns this job with these stored questions, which a stream leaves out. */
async function complaints(
  job: Job,
  { streamed = job, errors = [] as JobErrors['items'], stored = IDS as readonly string[] | null, hasBank = true } = {},
): Promise<string[]> {
  const faults: string[] = [];
  const shown = { ...job, scope: { ...job.scope, questionContext: stored?.map((id) => ({ id })) ?? null } };
  const client = {
    readJob: async () => ({ job: shown }),
    listJobErrors: async () => ({ items: errors, total: errors.length }),
  };
  const gateway = { client: () => client };
  const complain = (fault: string) => void faults.push(fault);
  await verifyJob({ gateway, examId: '', complain } as never, streamed, IDS, { hasBank });
  return faults;
}

t.test('the demo accepts a job with one suggestion for each question, in order', async (t) => {
  t.same(await complaints(finished(IDS.map(item))), []);
  t.same(await complaints(finished(IDS.map(item)), { hasBank: false }), [], 'the cluster calls a bank of its own');
  const withoutBank = await complaints(finished(IDS.map(item)), { hasBank: false, stored: null });
  t.same(withoutBank, [], 'a cluster without a question bank stores no questions');
});

t.test('the demo reports items that are missing, duplicated, out of order or failed', async (t) => {
  const good = IDS.map(item);
  const [first = item('q1'), second = item('q2'), ...others] = good;
  const error = { questionId: 'q1', batchIndex: 0, code: 'AI_ITEM_MISSING', message: 'no' };
  const wrong: [name: string, faults: Promise<string[]>][] = [
    ['missing', complaints(finished(good.slice(1)))],
    ['double', complaints(finished([first, ...good]))],
    ['in another order', complaints(finished([second, first, ...others]))],
    ['not finished', complaints({ ...finished(good), status: 'FAILED' })],
    ['counted wrong', complaints({ ...finished(good), progress: { ...finished(good).progress, failed: 1 } })],
    ['with an error', complaints(finished(good), { errors: [error] })],
    ['different on the stream', complaints(finished(good), { streamed: { ...finished(good), revision: 8 } })],
    ['without a stored question', complaints(finished(good), { stored: IDS.slice(1) })],
    ['without any stored question', complaints(finished(good), { stored: null })],
    ['with a part of them', complaints(finished(good), { stored: IDS.slice(1), hasBank: false })],
    ['without a field', complaints(finished([{ ...first, suggestions: { topic: {} } }, second, ...others]))],
    ['accepted', complaints(finished([{ ...first, accepted: true }, second, ...others]))],
  ];
  for (const [name, faults] of wrong) t.not((await faults).length, 0, name);
});
