import t, { type Test } from 'tap';
import {
  attemptClient,
  choice,
  essay,
  inMs,
  newExamId,
  numeric,
  options,
  type Person,
  type StartChange,
  shortText,
} from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, {
  inside: true,
  workers: ['grading', 'essayhandoff', 'resultsrelease'],
  env: { LOG_LEVEL: 'trace' },
});
const client = await attemptClient(cluster);

// Half of 15.5462 is 7.7731; 3.3317 is the manual grade. These values appear only where a grade is visible.
const GRADES = ['7.7731', '3.3317', '11.1048', 'canary-feedback', 'canary-comment'];
const KEYS = ['canary-accepted', '918273', 'answerKey'];
const QUESTIONS = [
  choice('half', {
    type: 'MULTIPLE_CHOICE',
    score: 15.5462,
    scoringRule: { mode: 'PARTIAL' },
    options: options('a', 'b', 'c'),
    answerKey: { correctOptionIds: ['a', 'b'] },
  }),
  shortText('text', ['canary-accepted']),
  numeric('number', [{ value: 918_273 }]),
  essay(),
];
const MAX = 22.5462;
const TOTAL = 11.1048;

interface Seat {
  student: Person;
  id: string;
  examId: string;
  change: StartChange;
  key: string;
}

/** Returns an attempt that was submitted and graded, its essay by a handoff. */
async function graded(exam: object): Promise<Seat & { handoff: string }> {
  const examId = newExamId();
  const student = client.student();
  const change = { exam: { ...exam }, questions: QUESTIONS };
  const key = `key-${examId}`;
  const { data } = await student.start(examId, change, { key });
  const { id } = data.attempt;
  await student.save(id, { questionId: 'half', selectedOptionIds: ['a'] });
  await student.save(id, { questionId: 'text', textAnswer: 'wrong' });
  await student.save(id, { questionId: 'essay', textAnswer: 'words' });
  const { status } = await student.submit(id);
  if (status !== 200) throw new Error(`submit answered ${status}`);
  const criteria = [{ id: 'c1', name: 'n', score: 3.3317, maxScore: 5, comment: 'canary-comment' }];
  const body = { score: 3.3317, feedback: 'canary-feedback', criteria, sourceEventId: `grade-${id}` };
  const handoff = await client.sendHandoff(id, body);
  if (handoff.data.applied !== true) throw new Error(`handoff: ${handoff.text}`);
  return { student, id, examId, change, key, handoff: handoff.text };
}

/** Returns every reply about the attempt that a student, or the sender of the handoff, can get. */
async function everyReply({ student, id, examId, change, key }: Seat): Promise<[string, string][]> {
  const replies = {
    detail: await student.get(id),
    result: await student.result(id),
    events: await student.events(id),
    list: await student.list(),
    replay: await student.start(examId, change, { key }),
    save: await student.save(id, { questionId: 'half', selectedOptionIds: ['b'] }),
    submit: await student.submit(id),
    event: await student.post(id, 'TAB_HIDDEN'),
    handoff: await client.sendHandoff(id, { score: 3.3317, sourceEventId: `grade-${id}` }),
    refused: await client.sendHandoff(id, { questionId: 'half', score: 3 }),
  };
  return Object.entries(replies).map(([name, reply]) => [name, reply.text]);
}

async function shownGrade(t: Test, { student, id }: Seat): Promise<void> {
  const { data } = await student.get(id);
  t.match(data, { resultVisible: true, hiddenReason: null, totalScore: TOTAL, maxScore: MAX, pendingManualCount: 0 });
  t.match(data, { correctCount: 0, wrongCount: 4 });
  const answers = new Map(data.answers.map((answer: { questionId: string }) => [answer.questionId, answer]));
  t.match(answers.get('half'), { isCorrect: false, score: 7.7731 });
  t.match(answers.get('essay'), { isCorrect: false, score: 3.3317 });
  const handoff = data.events.find(({ type }: { type: string }) => type === 'ESSAY_GRADE_HANDOFF');
  t.match(handoff.metadata, { score: 3.3317, feedback: 'canary-feedback', criteria: [{ comment: 'canary-comment' }] });
  t.match(data.events.find(({ type }: { type: string }) => type === 'SUBMIT').metadata, { totalScore: 7.7731 });
  const result = (await student.result(id)).data;
  t.same(Object.keys(result).sort(), ['attempt', 'scorePercent']);
  t.equal(result.scorePercent, (TOTAL / MAX) * 100);
  const [item] = (await student.list()).data;
  t.match(item, { id, resultVisible: true, hiddenReason: null, totalScore: TOTAL, correctCount: 0, wrongCount: 4 });
}

async function hiddenGrade(t: Test, seat: Seat, hiddenReason: string): Promise<void> {
  for (const [name, text] of await everyReply(seat)) {
    t.same(
      GRADES.filter((canary) => text.includes(canary)),
      [],
      `${name} contains no grade`,
    );
    t.notMatch(text, /"isCorrect":(true|false)/, name);
  }
  const HIDDEN = { resultVisible: false, hiddenReason, totalScore: null, correctCount: null, wrongCount: null };
  const { data } = await seat.student.get(seat.id);
  t.match(data, { ...HIDDEN, pendingManualCount: null, maxScore: MAX, status: 'GRADED' });
  const result = (await seat.student.result(seat.id)).data;
  t.match(result, { scorePercent: null, attempt: HIDDEN });
  t.match((await seat.student.list()).data[0], HIDDEN);
  const handoff = data.events.find(({ type }: { type: string }) => type === 'ESSAY_GRADE_HANDOFF');
  t.match(handoff.metadata, {
    sourceEventId: `grade-${seat.id}`,
    questionId: 'essay',
    score: null,
    feedback: null,
    criteria: null,
  });
  for (const examiner of [client.admin(), client.teacher('teacher-1'), client.teacher('teacher-2')]) {
    const seen = (await examiner.result(seat.id)).data;
    t.match(seen, {
      scorePercent: (TOTAL / MAX) * 100,
      attempt: { totalScore: TOTAL, resultVisible: true, hiddenReason: null },
    });
    t.same(seen.attempt.questions[1].answerKey, { acceptedTexts: ['canary-accepted'] });
    t.match((await examiner.events(seat.id)).text, /canary-feedback/);
  }
}

const AFTER_CLOSE = 'Kết quả sẽ được hiển thị sau khi bài thi đóng.';
const MANUAL = 'Kết quả sẽ được hiển thị khi giáo viên công bố.';

const release = ({ examId }: Seat) =>
  client.release({ examId, releasedAt: inMs(-60_000), sourceEventId: `release-${examId}` });
/** Sets a time of the exam a minute in the past, so that an error in the door's estimate of MongoDB's time does not matter. */
const reach = (time: 'closeTime' | 'resultsReleasedAt', { id }: Seat) =>
  cluster.mongo
    .collection<{ _id: string }>('attempts')
    .updateOne({ _id: id }, { $set: { [`exam.${time}`]: new Date(Date.now() - 60_000) } });

t.test('IMMEDIATE shows the grade as soon as it exists', async (t) => {
  const seat = await graded({ showResultMode: 'IMMEDIATE' });
  t.match(JSON.parse(seat.handoff).data.attempt, { totalScore: TOTAL }, 'the sender of the grade sees it as well');
  await shownGrade(t, seat);
});

t.test('AFTER_CLOSE hides the grade until the close and shows it from then on', async (t) => {
  const seat = await graded({ showResultMode: 'AFTER_CLOSE', closeTime: inMs(3_600_000) });
  t.notMatch(seat.handoff, /3\.3317|canary/);
  await hiddenGrade(t, seat, AFTER_CLOSE);
  await reach('closeTime', seat);
  await shownGrade(t, seat);
});

t.test('AFTER_CLOSE shows the grade before the close once it is released', async (t) => {
  const seat = await graded({ showResultMode: 'AFTER_CLOSE', closeTime: inMs(3_600_000) });
  t.match(await release(seat), { status: 200, data: { updatedAttempts: 1, queuedNotifications: 2 } });
  await shownGrade(t, seat);
});

t.test('AFTER_CLOSE without a close time shows the grade only after a release', async (t) => {
  const seat = await graded({ showResultMode: 'AFTER_CLOSE' });
  await hiddenGrade(t, seat, AFTER_CLOSE);
  await release(seat);
  await shownGrade(t, seat);
});

t.test('MANUAL shows the grade after a release, not after the close', async (t) => {
  const seat = await graded({ showResultMode: 'MANUAL', closeTime: inMs(3_600_000) });
  await reach('closeTime', seat);
  await hiddenGrade(t, seat, MANUAL);
  await release(seat);
  await shownGrade(t, seat);
  t.ok((await seat.student.get(seat.id)).data.exam.resultsReleasedAt);
});

t.test('MANUAL shows the grade from a release time that came with the start', async (t) => {
  await shownGrade(t, await graded({ showResultMode: 'MANUAL', resultsReleasedAt: inMs(-60_000) }));
  const seat = await graded({ showResultMode: 'MANUAL', resultsReleasedAt: inMs(3_600_000) });
  t.notMatch(seat.handoff, /3\.3317|canary/);
  await hiddenGrade(t, seat, MANUAL);
  await reach('resultsReleasedAt', seat);
  await shownGrade(t, seat);
});

t.test('AFTER_CLOSE hides the grade until the close if the release time is in the future', async (t) => {
  const seat = await graded({ showResultMode: 'AFTER_CLOSE', closeTime: inMs(3_600_000) });
  await client.release({ examId: seat.examId, releasedAt: inMs(1_800_000), sourceEventId: `release-${seat.examId}` });
  await hiddenGrade(t, seat, AFTER_CLOSE);
  await reach('closeTime', seat);
  await shownGrade(t, seat);
});

t.test('replies show the teacher scope to examiners and to no student', async (t) => {
  const { student, id, attempt } = await client.sitting();
  const scope = {
    createdById: 'teacher-1',
    assignedClassroomIds: ['class-1'],
    resultViewerTeacherIds: ['teacher-2'],
  };
  t.notOk('scope' in attempt);
  for (const status of ['IN_PROGRESS', 'GRADED']) {
    for (const reader of [client.admin(), client.teacher('teacher-1'), client.teacher('teacher-2')]) {
      t.strictSame((await reader.get(id)).data.scope, scope, status);
      t.strictSame((await reader.result(id)).data.attempt.scope, scope);
    }
    for (const reply of [await student.get(id), await student.result(id), await student.submit(id)]) {
      t.notMatch(reply.text, /"scope"|class-1|teacher-2/);
    }
  }
});

t.test('an attempt in progress shows its result to no reader', async (t) => {
  const { student, id } = await client.sitting({ questions: QUESTIONS });
  for (const reader of [student, client.admin(), client.teacher('teacher-1')]) {
    t.match((await reader.result(id)).data, {
      scorePercent: null,
      attempt: { resultVisible: false, hiddenReason: 'Bài làm chưa được nộp.', totalScore: null },
    });
  }
  t.match((await client.admin().get(id)).data.questions[2], { answerKey: { numericAnswers: [{ value: 918_273 }] } });
});

t.test('a student’s own list has exact fields, newest first, at most a hundred attempts', async (t) => {
  const student = client.student();
  const ids: string[] = [];
  for (let n = 0; n < 103; n++) {
    const { data } = await student.start(newExamId(), { exam: { closeTime: '2100-01-01T00:00:00Z' } });
    ids.push(data.attempt.id);
  }
  await client.sitting();
  const { data, json, text } = await student.list();
  t.equal(json.message, 'OK');
  t.equal(data.length, 100);
  t.same(
    data.map(({ id }: { id: string }) => id),
    ids.reverse().slice(0, 100),
  );
  t.same(
    Object.keys(data[0]).sort(),
    'correctCount deadlineAt durationSeconds exam examId hiddenReason id resultVisible startedAt status submittedAt totalScore wrongCount'.split(
      ' ',
    ),
  );
  t.same(
    Object.keys(data[0].exam).sort(),
    'closeTime durationMinutes gradeLevel id showResultMode subject title'.split(' '),
  );
  t.match(data[0], { status: 'IN_PROGRESS', submittedAt: null, exam: { closeTime: '2100-01-01T00:00:00.000Z' } });
  t.notOk(text.includes(student.id));
  for (const role of ['TEACHER', 'ADMIN', 'PARENT']) t.match(await client.as(role, student.id).list(), { status: 403 });
  t.same((await client.student().list()).data, []);
});

// Runs after the tests above: it counts the attempts that they left.
t.test('the summary agrees with a recount of every attempt', async (t) => {
  await client.sitting({ access: { assigned: false, link: { id: 'l', mode: 'LOGIN_REQUIRED', active: true } } });
  const timed = await client.sitting();
  await timed.student.post(timed.id, 'TIMEOUT');
  const admin = client.admin();
  const count = {
    attempts: {
      total: 0,
      byStatus: { IN_PROGRESS: 0, SUBMITTED: 0, GRADED: 0 },
      bySubmitSource: { STUDENT: 0, TIMEOUT: 0, TEACHER: 0, NONE: 0 },
      withScores: 0,
      withAccessLink: 0,
      withIdempotencyKey: 0,
      withResultsReleased: 0,
    },
    rows: { questions: 0, answers: 0, gradedAnswers: 0, events: 0 },
  };
  for (const { _id } of await cluster.mongo
    .collection('attempts')
    .find({}, { projection: { _id: 1 } })
    .toArray()) {
    const { data } = await admin.get(String(_id));
    const { attempts, rows } = count;
    attempts.total += 1;
    attempts.byStatus[data.status as 'GRADED'] += 1;
    attempts.bySubmitSource[(data.submittedBy ?? 'NONE') as 'NONE'] += 1;
    attempts.withScores += Number(data.totalScore !== null);
    attempts.withAccessLink += Number(data.accessLinkId !== null);
    attempts.withIdempotencyKey += 1;
    attempts.withResultsReleased += Number(data.exam.resultsReleasedAt !== null);
    rows.questions += data.questions.length;
    rows.answers += data.answers.length;
    rows.gradedAnswers += data.answers.filter(({ score }: { score: number | null }) => score !== null).length;
    rows.events += (await admin.events(String(_id))).data.length;
  }
  const { data } = await admin.summary();
  t.same(data, count);
  t.ok(count.attempts.total > 100 && count.attempts.bySubmitSource.TIMEOUT > 0 && count.rows.gradedAnswers > 10);
  for (const role of ['TEACHER', 'STUDENT', 'PARENT']) t.match(await client.as(role, 'x').summary(), { status: 403 });

  const token = cluster.tokens.internal;
  const by = (name: string, given: string, more = {}) =>
    client.call('GET', '/v1/admin/attempts/summary', {
      headers: { 'x-internal-service': name, 'x-internal-token': given, ...more },
    });
  t.match(await by('admin-service', token), { status: 200, data: { attempts: { total: count.attempts.total } } });
  const asAdmin = { 'x-user-id': 'admin-1', 'x-user-role': 'ADMIN' };
  t.match(await by('api-gateway', token, asAdmin), { status: 200 }, 'a gateway adds its credentials to every call');
  for (const refused of [by('admin-service', 'wrong', asAdmin), by('exam-service', token), by('api-gateway', token)]) {
    t.match(await refused, { status: 401, json: { code: 'ATTEMPT_INTERNAL_UNAUTHORIZED' } });
  }
});

t.test('no reply to a student contains an answer key, on any route', async (t) => {
  const leaks = client.received.filter(
    ({ role, text }) => role === 'STUDENT' && KEYS.some((key) => text.includes(key)),
  );
  t.same(
    leaks.map(({ about }) => about),
    [],
  );
});

t.test('no log line holds a token, a key, an answer or a grade', async (t) => {
  // A process writes its log in parts, so that the last line is complete only after its end.
  for (const name of ['web1', 'grading', 'essayhandoff', 'resultsrelease']) await cluster.kill(name, 'SIGTERM');
  t.ok(cluster.output('web1').includes('/v1/admin/attempts/summary'), 'the access lines are written');
  const output = cluster.output();
  const secrets = [...Object.values(cluster.tokens), ...GRADES, 'canary-accepted', '918273', 'words', 'key-exam-'];
  for (const secret of secrets) t.notOk(output.includes(secret), `${secret} in a log line`);
  for (const line of output.trim().split('\n')) t.doesNotThrow(() => JSON.parse(line), line.slice(0, 100));
});
