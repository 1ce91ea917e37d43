import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { essayGradePreview, explanationPreview, generationPreview } from '#shared/classifier/preview.ts';
import { type TaskPayloads, type TaskResults, taskRequest, taskResult } from './envelope.ts';
import { TASK_FORMS, type TaskForm } from './forms.ts';
import { TASK_KINDS, type TaskKind } from './task.ts';

const schemas = loadSchemas();
const CRITERIA = [{ id: 'c', name: 'Ý', maxScore: 2 }];
const ESSAY = { questionId: 'q-1', prompt: 'Tả', answerText: 'Sông', maxScore: 2, rubric: { criteria: CRITERIA } };
const PAYLOADS: TaskPayloads = {
  classify: {
    questionIds: ['q-1'],
    fields: ['topic'],
    overwrite: false,
    mode: 'AUTO',
    threshold: 0.7,
    questions: [{ id: 'q-1', content: 'x' }],
  },
  generate: {
    mode: 'fresh',
    subject: 'Toán',
    gradeLevel: '12',
    topic: 'Số',
    questionType: 'ESSAY',
    difficulty: 'dễ',
    count: 1,
    language: 'vi',
    instructions: null,
    references: [],
  },
  explain: { content: '1 + 1 = ?' },
  grade: ESSAY,
};
const RESULTS: TaskResults = {
  classify: {
    items: [{ questionId: 'q-1', suggestions: { topic: { value: 'Số', confidence: 1 } }, accepted: false }],
    errors: [],
  },
  generate: {
    questions: [
      {
        tempId: 'q1',
        type: 'ESSAY',
        content: 'Tả',
        contentText: 'Tả',
        options: [],
        answerKey: {},
        explanation: 'Nước',
        difficulty: 'dễ',
      },
    ],
  },
  explain: { text: 'Hai', steps: ['Cộng'] },
  grade: { score: 1, maxScore: 2, feedback: 'Tốt', criteria: [{ id: 'c', score: 1, maxScore: 2, comment: '' }] },
};
const SCOPE = {
  taskId: 't-1',
  organizationId: 'org-1',
  actorId: 'a-1',
  requestId: 'r-1',
  jobId: null,
  batchIndex: null,
};
const ANSWER = { provider: 'mock', model: 'mock-1', usage: { inputTokens: null, outputTokens: 3 } };

function envelopes<Kind extends TaskKind>(kind: Kind) {
  const request = taskRequest(kind, PAYLOADS[kind], SCOPE);
  return { request, result: taskResult(request, RESULTS[kind], ANSWER, Date.parse('2026-11-21T00:00:00.000Z')) };
}

t.test('the answer schema of each task is valid JSON Schema 2020-12', async (t) => {
  // The check of a model's answer compiles the schema without the meta-schema.
  const ajv = new Ajv2020({ strict: false, strictNumbers: true });
  for (const kind of TASK_KINDS) {
    const form: TaskForm<TaskKind> = TASK_FORMS[kind];
    const task = form.task(PAYLOADS[kind]);
    t.equal(task.kind, kind);
    t.ok(ajv.validateSchema(task.schema), `${kind}: ${ajv.errorsText()}`);
  }
});

t.test('every kind of task has a request and a result envelope with exactly its own payload', async (t) => {
  const faults = (which: 'request' | 'result', envelope: object) =>
    schemas
      .validator(`classifier/ai-task-${which}-envelope`)(structuredClone(envelope))
      .map(({ message }) => message);
  for (const kind of TASK_KINDS) {
    const { request, result } = envelopes(kind);
    t.strictSame([faults('request', request), faults('result', result)], [[], []], kind);
    for (const other of TASK_KINDS.filter((name) => name !== kind)) {
      const about = `${kind} and ${other}`;
      const second = { request: { [other]: PAYLOADS[other] }, result: { [other]: RESULTS[other] } };
      for (const [which, envelope] of [
        ['request', request],
        ['result', result],
      ] as const) {
        const { [kind]: _own, ...without } = envelope as unknown as Record<string, unknown>;
        const wrong = [without, { ...envelope, ...second[which] }, { ...without, ...second[which] }];
        for (const one of wrong) t.match(faults(which, one).join(), /exactly the member that its kind names/, about);
      }
    }
  }
  t.strictSame(schemas.document('classifier/task-kind').enum, [...TASK_KINDS]);
});

t.test('a task without keys of its own is stored and cancelled by itself', async (t) => {
  t.match(envelopes('grade').request, { cancellationKey: 'preview:t-1', idempotencyKey: 't-1' });
  const batch = taskRequest('classify', PAYLOADS.classify, {
    ...SCOPE,
    jobId: 'j-1',
    batchIndex: 4,
    idempotencyKey: 'b-4:1',
    cancellationKey: 'j-1:1',
  });
  t.match(batch, {
    cancellationKey: 'j-1:1',
    idempotencyKey: 'b-4:1',
    usageEvent: { jobId: 'j-1', batchIndex: 4 },
  });
});

t.test('previews match their schemas, and the attempt service accepts the handoff', async (t) => {
  const settlement = { credits: 3, tokens: 5, settledAt: '2026-11-21T00:00:00.000Z' };
  const [generated, graded] = [envelopes('generate').result, essayGradePreview(envelopes('grade').result, ESSAY)];
  const cases: [string, unknown][] = [
    ['generation-preview', generationPreview(generated, 'fresh', null)],
    ['generation-preview', generationPreview(generated, 'fresh', settlement)],
    ['explanation-preview', explanationPreview(envelopes('explain').result)],
    ['essay-grade-preview', graded],
  ];
  for (const [name, preview] of cases) {
    t.strictSame(schemas.validator(`classifier/${name}`)(structuredClone(preview)), [], name);
  }
  const handoff = structuredClone(graded.handoff);
  t.strictSame(schemas.validator('attempt/essay-grade-handoff-request')(handoff), []);
  t.strictSame(handoff, graded.handoff, 'validation changes nothing in the handoff');
  t.equal(generationPreview(generated, 'fresh', null).chargePolicy, 'preview_only_no_consume');
  t.equal(generationPreview(generated, 'fresh', settlement).chargePolicy, 'usage_wallet_settled');
});
