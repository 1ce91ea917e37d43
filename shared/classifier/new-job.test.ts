import fc from 'fast-check';
import t from 'tap';
import { BATCH_SIZE, type JobRequest } from './job.ts';
import { contextOf, jobRequestFaults, newJob } from './new-job.ts';

const ORIGIN = { id: 'job-1', now: new Date(0), actorRole: 'TEACHER', slots: { actorSlot: 0, organizationSlot: 0 } };

function jobRequest(questionIds: string[]): JobRequest {
  return {
    actorId: 'a',
    organizationId: 'o',
    filters: { 'a.b': '$x' },
    questionIds,
    fields: ['topic'],
    mode: 'SUGGEST',
    overwrite: false,
    threshold: 0.7,
  };
}

t.test('batches hold every question once, in order, five at a time', async (t) => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 40 }), (ids) => {
      const { batches, job } = newJob(jobRequest(ids), ORIGIN, { kind: 'NONE' });
      const sizes = batches.map(({ questionIds }) => questionIds.length);
      return (
        JSON.stringify(batches.flatMap(({ questionIds }) => questionIds)) === JSON.stringify(ids) &&
        sizes.slice(0, -1).every((size) => size === BATCH_SIZE) &&
        job.counts.batchesTotal === batches.length &&
        job.counts.total === ids.length
      );
    }),
  );
  t.pass('the property holds for every selection');
});

t.test('a batch stores those of its questions that the bank knows', async (t) => {
  const ids = ['q1', 'q2', 'q3', 'q4', 'q5', 'q6'];
  const questions = new Map(['q6', 'q2', 'q1'].map((id) => [id, { id, content: `text of ${id}` }]));
  const { batches, job, selection } = newJob(jobRequest(ids), ORIGIN, { kind: 'LOADED', known: questions });
  t.strictSame(
    batches.map(({ contextText }) => contextOf(contextText ?? '').map(({ id }) => id)),
    [['q1', 'q2'], ['q6']],
  );
  t.match(job, { context: 'LOADED', status: 'PENDING', open: true, round: 1, revision: 1 });
  t.equal(selection.filtersText, '{"a.b":"$x"}');
});

t.test('a job without its questions is created FAILED and does not block an equal job', async (t) => {
  const { job, batches } = newJob(jobRequest(['q1']), ORIGIN, { kind: 'FAILED' });
  t.match(job, {
    status: 'FAILED',
    open: false,
    error: { code: 'AI_QUESTION_CONTEXT_FAILED' },
    finishedAt: new Date(0),
  });
  t.equal(batches[0]?.contextText, null);
});

t.test('a duplicate question or field is a fault at its second position', async (t) => {
  t.strictSame(
    jobRequestFaults({ questionIds: ['a', 'b', 'a'], fields: ['topic', 'topic'] }).map(({ path }) => path),
    ['/questionIds/2', '/fields/1'],
  );
  t.strictSame(jobRequestFaults({ questionIds: ['a', 'b'], fields: 'topic' }), []);
  t.strictSame(jobRequestFaults(null), []);
});
