import t from 'tap';
import { derivedId } from '#shared/kernel/ids.ts';
import { attemptClient, choice, newExamId, options } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { inside: true, workers: [] });
const client = await attemptClient(cluster);
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

t.test('a start reply has exactly the fields of the contract, on both paths', async (t) => {
  const fields =
    'id examId studentId organizationId accessLinkId attemptNumber status startedAt submittedAt deadlineAt durationSeconds submittedBy totalScore maxScore correctCount wrongCount pendingManualCount studentInfo courseContext resultVisible hiddenReason serverTime exam questions answers events eventCount'.split(
      ' ',
    );
  const examFields =
    'id title subject gradeLevel status durationMinutes showResultMode closeTime resultsReleasedAt'.split(' ');
  for (const path of ['attempts', 'start']) {
    const examId = newExamId();
    const student = client.student();
    const studentInfo = { fullName: 'Nguyễn An', studentCode: 'S1', className: '12A', email: 'a@b.vn', phone: '0912' };
    const first = choice('q1', {
      id: 'kept-id',
      examQuestionId: 'eq-1',
      questionVersionId: 'v3',
      optionOrder: ['c', 'a', 'b'],
    });
    const reply = await student.start(
      examId,
      { studentInfo, questions: [first, choice('q2', { score: 2.5 })] },
      { path },
    );
    t.match(reply, {
      status: 201,
      headers: { 'idempotency-replayed': 'false' },
      json: { success: true, message: 'OK' },
    });
    t.same(Object.keys(reply.data).sort(), ['attempt', 'created']);
    const { attempt } = reply.data;
    t.same(Object.keys(attempt).sort(), [...fields].sort());
    t.same(Object.keys(attempt.exam).sort(), [...examFields].sort());
    t.match(attempt, {
      id: UUID_V7,
      examId,
      studentId: student.id,
      organizationId: 'org-1',
      attemptNumber: 1,
      status: 'IN_PROGRESS',
      startedAt: TIMESTAMP,
      deadlineAt: TIMESTAMP,
      serverTime: TIMESTAMP,
      submittedAt: null,
      durationSeconds: null,
      submittedBy: null,
      maxScore: 3.5,
      studentInfo,
      resultVisible: false,
      hiddenReason: 'Bài làm chưa được nộp.',
      answers: [],
      eventCount: 1,
      exam: {
        id: examId,
        title: 'Toán 12',
        subject: 'Toán',
        gradeLevel: '12',
        status: 'PUBLISHED',
        durationMinutes: 60,
      },
    });
    t.equal(Date.parse(attempt.deadlineAt) - Date.parse(attempt.startedAt), 3_600_000);
    t.match(attempt.events, [
      {
        attemptId: attempt.id,
        type: 'START',
        createdAt: attempt.startedAt,
        metadata: { created: true, accessLinkId: null, idempotencyHeader: /^idempotency-key$/i },
      },
    ]);
    const { answerKey: _, ...shown } = first as { answerKey?: unknown };
    t.match(attempt.questions[0], { ...shown, id: 'kept-id', orderIndex: 0, options: options('c', 'a', 'b') });
    t.match(attempt.questions[1], {
      id: UUID_V7,
      questionId: 'q2',
      orderIndex: 1,
      optionOrder: ['a', 'b', 'c'],
      score: 2.5,
    });
    t.notOk(reply.text.includes('answerKey'), 'no key for a student');
    const again = await student.get(attempt.id);
    const { serverTime: _t, ...rest } = attempt;
    t.match(again.data, rest, 'GET returns the same attempt');
  }
});

t.test('the sender’s `orderIndex` values order the paper and are returned, shuffled or not', async (t) => {
  const numbers = [70, 10, -30, 50, 20, 90];
  const questions = numbers.map((orderIndex) => choice(`q${orderIndex}`, { orderIndex }));
  const ascending = [-30, 10, 20, 50, 70, 90];
  type Place = { orderIndex: number; questionId: string };
  const orders = new Set<string>();
  for (const exam of [{}, { shuffleQuestions: true }, { randomizePerAttempt: true }]) {
    const { student, id, attempt } = await client.sitting({ exam, questions });
    t.same(
      attempt.questions.map(({ orderIndex }: Place) => orderIndex),
      ascending,
    );
    const names = attempt.questions.map(({ questionId }: Place) => questionId);
    if (Object.keys(exam).length === 0) t.same(names, ['q-30', 'q10', 'q20', 'q50', 'q70', 'q90']);
    t.same([...names].sort(), questions.map(({ questionId }) => questionId).sort());
    orders.add(names.join());
    await student.save(id, { questionId: 'q50', selectedOptionIds: ['b'] });
    const { data } = await student.get(id);
    t.same(data.questions, attempt.questions, 'the same on a read');
    t.match(data.answers, [{ questionId: 'q50', answer: { selectedOptionIds: ['b'] } }]);
  }
  t.ok(orders.size > 1);
  for (const other of [{ orderIndex: undefined }, { orderIndex: 10 }]) {
    const [first, ...rest] = questions;
    const { attempt } = await client.sitting({ questions: [{ ...first, ...other }, ...rest] });
    t.same(
      attempt.questions.map(({ orderIndex, questionId }: Place) => [orderIndex, questionId]),
      questions.map(({ questionId }, place) => [place, questionId]),
      'in the order of the array',
    );
  }
});

t.test('the shuffle cannot be computed from what a student receives', async (t) => {
  const { id, attempt } = await client.sitting({
    exam: { shuffleQuestions: true, shuffleOptions: true },
    questions: Array.from({ length: 5 }, (_, n) => choice(`q${n}`)),
  });
  const stored = await cluster.mongo.collection<{ _id: string; seed: string }>('attempts').findOne({ _id: id });
  t.match(stored?.seed, /^[\w-]{22}$/, 'the seed is 128 random bits');
  t.notOk(JSON.stringify(attempt).includes(stored?.seed ?? ''), 'no reply contains the seed');
  const guesses = new Set(attempt.questions.map((_: unknown, place: number) => derivedId(id, `question:${place}`)));
  t.notOk(
    attempt.questions.some((question: { id: string }) => guesses.has(question.id)),
    'no id names an authored place',
  );
});

t.test('shuffled order differs between attempts and is stable within one attempt', async (t) => {
  const questions = Array.from({ length: 10 }, (_, n) => choice(`q${n}`, { options: options(...'abcdefgh') }));
  const orders = async (exam: object) => {
    const sittings = await Promise.all([1, 2, 3, 4].map(() => client.sitting({ exam: { ...exam }, questions })));
    for (const { attempt, student, id } of sittings) {
      t.same(
        attempt.questions.map((question: { orderIndex: number }) => question.orderIndex),
        [...questions.keys()],
      );
      t.same((await student.get(id)).data.questions, attempt.questions, 'stable');
      const seen = (await client.admin().get(id)).data.questions;
      const idsOf = (question: { options: { id: string }[] }) => question.options.map((option) => option.id);
      for (const [place, question] of attempt.questions.entries()) {
        t.same([...question.optionOrder].sort(), [...'abcdefgh']);
        t.same(idsOf(question), question.optionOrder, 'a student sees no other order');
        t.same([idsOf(seen[place]), seen[place].optionOrder], [[...'abcdefgh'], question.optionOrder], 'an admin does');
      }
    }
    return {
      questions: new Set(
        sittings.map(({ attempt }) => attempt.questions.map((one: { questionId: string }) => one.questionId).join()),
      ),
      options: new Set(
        sittings.flatMap(({ attempt }) =>
          attempt.questions.map((one: { optionOrder: string[] }) => one.optionOrder.join()),
        ),
      ),
    };
  };
  const plain = await orders({});
  t.same([plain.questions.size, plain.options.size], [1, 1]);
  const shuffled = await orders({ shuffleQuestions: true });
  t.ok(shuffled.questions.size > 1 && shuffled.options.size === 1);
  const randomized = await orders({ randomizePerAttempt: true });
  t.ok(randomized.questions.size > 1 && randomized.options.size === 1);
  const both = await orders({ shuffleQuestions: true, shuffleOptions: true });
  t.ok(both.questions.size > 1 && both.options.size > 4);
});
