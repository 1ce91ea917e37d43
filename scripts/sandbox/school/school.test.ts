import { PassThrough } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { commonPasswords } from '#infra/passwords/common-passwords.ts';
import { copiedPaper, gradeAnswers } from '#scripts/sandbox/demo/verify.ts';
import { asStudent, countRequests, openGateway } from '#scripts/sandbox/gateway.ts';
import { answerJson, openReceiver } from '#scripts/sandbox/local-server.ts';
import { contactsOf, runtimeOf, schoolOf } from '#scripts/sandbox/school/school.ts';
import { DEVELOPMENT_PASSWORD } from '#scripts/sandbox/seed/people.ts';
import { runSeed, startingPoints } from '#scripts/sandbox/seed.ts';
import { answerFields, fitAnswer, pickAnswer } from '#shared/attempt/answer.ts';
import { answerKeyOf } from '#shared/attempt/attempt.ts';
import { copyPaper } from '#shared/attempt/copy-paper.ts';
import { passwordFaults } from '#shared/auth/password-policy.ts';
import { sumExactly } from '#shared/kernel/decimal.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { contactOf } from '#shared/notification/email.ts';
import type { Answer, StartQuestion } from '../../../clients/typescript/src/index.ts';
import { answerSheet } from './answer-sheet.ts';
import { MISPRINT, mathsPaper, misprinted } from './paper.ts';
import { schoolYear } from './school.ts';

t.test('equal seeds make equal schools, and schools of other seeds share no id', async (t) => {
  t.strictSame(schoolOf('1', 200), schoolOf('1', 200));
  const idsOf = (seed: string) => {
    const { classes, exams } = schoolOf(seed, 200);
    const people = classes.flatMap((room) => [
      room.teacher.id,
      room.teacher.email,
      ...room.students.flatMap(({ id, email, parentIds }) => [id, email, ...parentIds]),
    ]);
    return [...people, ...exams.map(({ id }) => id), ...classes.map(({ id }) => id)];
  };
  const [first, second] = [idsOf('1'), idsOf('2')];
  t.equal(new Set([...first, ...second]).size, first.length + second.length);
});

t.test('a school of any size has an exam in each state, and every class sits one', async (t) => {
  for (const students of [1, 39, 41, 200, 400]) {
    const { classes, exams } = schoolOf('7', students);
    t.equal(classes.flatMap((room) => room.students).length, students);
    t.strictSame(new Set(exams.map(({ state }) => state)).size, 5);
    for (const room of classes) t.ok(exams.some(({ classroom }) => classroom === room));
    for (const exam of exams) {
      t.equal(
        exam.questions.some(({ type }) => type === 'ESSAY'),
        exam.state === 'essays',
      );
      t.match(runtimeOf(exam), { id: exam.id, organizationId: exam.classroom.organizationId });
    }
  }
  t.ok(new Set(schoolOf('7', 200).classes.map(({ organizationId }) => organizationId)).size > 1);
});

t.test('every person has a contact with an address of their own, which the email channel accepts', async (t) => {
  const school = schoolOf('7', 200);
  const contacts = contactsOf(school);
  const families = school.classes.flatMap(({ students }) =>
    students.flatMap(({ id, parentIds }) => [id, ...parentIds]),
  );
  const teachers = school.classes.map(({ teacher }) => teacher.id);
  t.strictSame(Object.keys(contacts).sort(), [school.adminId, ...teachers, ...families].sort());
  const found = Object.values(contacts).map((contact) => contactOf({ ...contact })?.email);
  t.equal(new Set(found).size, Object.keys(contacts).length);
  t.ok(found.every((email) => email !== undefined));
});

t.test('the password policy accepts the password of the accounts', async (t) => {
  const context = { email: 'a@b.example', fullName: 'A', minLength: 8, isCommon: await commonPasswords() };
  t.strictSame(passwordFaults(DEVELOPMENT_PASSWORD, context), []);
});

/** Runs the seed and returns its exit code, its faults and what it printed. */
async function seed(...args: string[]) {
  const faults: string[] = [];
  const output = new PassThrough();
  const code = await runSeed(args, { env: {}, output, fail: (line) => void faults.push(line) });
  return { code, faults, said: `${output.read() ?? ''}` };
}

t.test('the seed refuses other machines and production clusters without --yes, before it sends anything', async (t) => {
  const calls: string[] = [];
  const url = await openReceiver(t, ({ method, path }, response) => {
    calls.push(`${method} ${path}`);
    answerJson(response, { status: 200, body: { data: { service: 'examhall', commands: [] } } });
  });
  t.match(await seed('--url', url), { code: 1, faults: [/is a production cluster; pass --yes/] });
  t.match(await seed('--url', 'http://exam.example'), { code: 1, faults: [/of another machine; pass --yes/] });
  t.strictSame(calls, ['GET /']);
});

t.test('the seed names what it cannot fill, and each invalid option', async (t) => {
  const url = await openReceiver(t, (_call, response) => answerJson(response, { status: 200 }));
  t.match(await seed('--url', url), { code: 1, faults: [/is no examhall cluster/] });
  t.match(await seed('--url', 'http://127.0.0.1:9'), { code: 1, faults: [/no cluster is ready at /] });
  for (const args of [['--students', '0'], ['--seed', 'a b'], ['--url', 'x'], ['--accounts', '-1'], ['--no']]) {
    const { code, faults, said } = await seed(...args);
    t.match({ code, usage: faults.at(-1), said }, { code: 64, usage: /--students N/, said: '' }, args.join(' '));
  }
  t.match(await seed('--help'), { code: 0, faults: [], said: /--students N/ });
});

t.test('the call for an inbox proves the gateway where the cluster requires it, and shows no secret', async (t) => {
  const school = schoolOf('7', 3);
  const inboxIn = (hasGatewayToken: boolean) =>
    startingPoints('http://127.0.0.1:3000', school, { hasGatewayToken }).find((line) => line.startsWith('  inbox'));
  const id = school.classes[0]?.students[0]?.id;
  const open = `  inbox    curl -s http://127.0.0.1:3000/v1/notifications -H x-actor-id:${id} -H x-actor-role:STUDENT`;
  t.equal(inboxIn(false), open);
  t.equal(inboxIn(true), `${open} -H x-gateway-token:$GATEWAY_TOKEN`);
});

const SEED = 'grader-test';
const questions = mathsPaper();

/** Returns a student's last answer to each question, as the service would store it. */
function finalAnswers(sheet: ReturnType<typeof answerSheet>): Map<string, Answer> {
  const last = new Map<string, Answer>();
  for (const step of sheet) if (step.kind === 'save') last.set(step.questionId, step.answer);
  return last;
}

/** Millionths of a point: whole numbers, so that sums are exact. */
type Micro = number;

/** The expected grade of an answer. `full`: the answer earned every point of its question. */
interface Expected {
  micro: Micro;
  full: boolean;
}

const LADDER: readonly Micro[] = [0, 100_000, 250_000, 500_000, 1_000_000];
const ONE: Micro = 1_000_000;

/** Converts points to millionths, rounded. */
function toMicro(points: number): Micro {
  return Math.round(points * ONE);
}

/**
 * Grades an answer without a line of the service's own grader, so that the two check each other. Knows only the four question types of
 * the demo's paper.
 */
function gradeAnswer(question: StartQuestion, answer: Answer | undefined): Expected {
  const worth = toMicro(question.score);
  const earned = answer === undefined ? 0 : earnedShare(question, answer, worth);
  return { micro: earned, full: earned === worth };
}

function earnedShare(question: StartQuestion, answer: Answer, worth: Micro): Micro {
  const key = question.answerKey ?? {};
  switch (question.type) {
    case 'SINGLE_CHOICE':
      return answer.selectedOptionIds?.join() === key.correctOptionIds?.join() ? worth : 0;
    case 'TRUE_FALSE_GROUP': {
      const truth = new Map((key.statements ?? []).map(({ statementId, value }) => [statementId, value]));
      const right = (answer.statementAnswers ?? []).filter((given) => given.value === truth.get(given.statementId));
      return Math.round(((LADDER[right.length] ?? 0) * worth) / ONE);
    }
    case 'NUMERIC': {
      const given = microOfText(answer.textAnswer ?? '');
      const tolerance = toMicro(question.scoringRule?.tolerance ?? 0);
      const isNear = (value: number) => given !== null && Math.abs(given - toMicro(value)) <= tolerance;
      return (key.numericAnswers ?? []).some(({ value }) => isNear(value)) ? worth : 0;
    }
    // A blank essay earns nothing; any other has no score before it is marked.
    case 'ESSAY':
      return 0;
    default:
      throw new Error(`the demo's paper has no ${question.type}`);
  }
}

/** Returns a decimal of at most six places, with comma or point, in millionths; null for any other text. */
function microOfText(text: string): Micro | null {
  const match = /^([-\u2212]?)(\d*)(?:[.,](\d{0,6}))?$/.exec(text.trim());
  if (match === null || (match[2] ?? '') + (match[3] ?? '') === '') return null;
  const size = Number(match[2] || '0') * ONE + Number((match[3] ?? '').padEnd(6, '0'));
  return match[1] === '' ? size : -size;
}

t.test('the grader of the service agrees with another one on every answer of two hundred students', async (t) => {
  const paper = copiedPaper(questions);
  let differences = 0;
  for (const student of schoolYear(200, SEED)) {
    const answers = finalAnswers(answerSheet(student, questions, SEED));
    for (const question of paper.questions) {
      const answer = answers.get(question.questionId);
      if (answer === undefined) continue;
      const picked = pickAnswer({ questionId: question.questionId, answer });
      const content = isRejection(picked) ? picked : fitAnswer(picked, question);
      if (isRejection(content) || !isDeepStrictEqual(answerFields(content), answer)) differences += 1;
    }
    const graded = gradeAnswers(paper, answers);
    for (const [index, question] of questions.entries()) {
      const theirs = graded.answers[answerKeyOf(index)];
      if (theirs === undefined || theirs.score === null) continue;
      const ours = gradeAnswer(question, answers.get(question.questionId));
      if (ours.micro !== toMicro(theirs.score) || ours.full !== theirs.isCorrect) differences += 1;
    }
  }
  t.equal(differences, 0);
});

t.test('equal seeds make equal demo students and answer sheets', async (t) => {
  const [first, second] = [schoolYear(5, 'a'), schoolYear(5, 'a')];
  t.strictSame(first, second);
  t.strictNotSame(first, schoolYear(5, 'b'));
  const [student] = first;
  if (student === undefined) throw new Error('there is no student');
  t.strictSame(answerSheet(student, questions, 'a'), answerSheet(student, questions, 'a'));
});

t.test('a trap changes the answers to its question alone, and the printed key differs there alone', async (t) => {
  const answersTo = (trap: typeof MISPRINT | null) =>
    schoolYear(40, 'a').map((student) => ({ student, sheet: answerSheet(student, questions, 'a', trap) }));
  const others = ({ sheet }: { sheet: ReturnType<typeof answerSheet> }) =>
    sheet.filter((step) => step.kind === 'event' || step.questionId !== MISPRINT.questionId);
  const trapped = answersTo(MISPRINT);
  t.strictSame(trapped.map(others), answersTo(null).map(others));
  const chosenBy = (isAble: boolean) =>
    trapped
      .filter(({ student }) => student.skill >= 0.55 === isAble)
      .flatMap(({ sheet }) => finalAnswers(sheet).get(MISPRINT.questionId)?.selectedOptionIds ?? []);
  t.strictSame([new Set(chosenBy(true)), new Set(chosenBy(false))], [new Set(['D']), new Set([MISPRINT.optionId])]);
  const wrong = misprinted(questions).filter((question, index) => !isDeepStrictEqual(question, questions[index]));
  t.match(wrong, [{ questionId: MISPRINT.questionId, answerKey: { correctOptionIds: [MISPRINT.optionId] } }]);
  t.equal(wrong.length, 1);
});

t.test('the demo paper has forty questions of four types, worth ten points', async (t) => {
  const paper = mathsPaper();
  const kinds = Map.groupBy(paper, (question) => question.type);
  t.equal(paper.length, 40);
  t.strictSame(
    [...kinds].map(([type, questions]) => [type, questions.length]),
    [
      ['SINGLE_CHOICE', 28],
      ['TRUE_FALSE_GROUP', 4],
      ['NUMERIC', 7],
      ['ESSAY', 1],
    ],
  );
  t.equal(sumExactly(paper.map((question) => question.score)), 10);
});

t.test('the attempt service accepts the demo paper', async (t) => {
  t.notMatch(atOnce(copyPaper(mathsPaper())), { rejected: String });
});

t.test('the demo paper repeats no option within a question', async (t) => {
  for (const { type, options, questionId } of mathsPaper()) {
    const expected = type === 'SINGLE_CHOICE' || type === 'TRUE_FALSE_GROUP' ? 4 : 0;
    t.equal(new Set(options?.map(({ content }) => content)).size, expected, questionId);
  }
});

t.test('the numeric answers of the demo paper equal computed values', async (t) => {
  const rounded = (value: number, places: number) => value.toFixed(places).replace('.', ',').replace(/,0+$/, '');
  const boxes = Array.from({ length: 6_001 }, (_, step) => step / 1_000).map((x) => x * (12 - 2 * x) ** 2);
  const computed = [
    rounded((6 ** 2 * 4) / 3, 2),
    rounded(((5 * 4) / 2) * 4, 0),
    rounded(Math.max(...boxes), 3),
    rounded((4 * 4 ** 2) / 2 - 4 ** 3 / 3, 1),
    rounded(100 * 1.06 ** 3, 1),
    rounded(Math.abs(2 * 1 - 2 * 2 + 3 + 7) / Math.hypot(2, -2, 1), 2),
    rounded(1 - 0.3 * 0.2, 2),
  ];
  const answers = mathsPaper().flatMap(({ answerKey }) => answerKey?.numericAnswers?.map(({ value }) => value) ?? []);
  t.strictSame(
    answers.map((value) => String(value).replace('.', ',')),
    computed,
  );
});

t.test('the numeric right options of the demo paper equal computed values', async (t) => {
  const computed: readonly [beginning: string, answer: number][] = [
    ['Nghiệm của phương trình 2ˣ⁺¹', Math.log2(16) - 1],
    ['Cho cấp số cộng', 3 + 9 * 4],
    ['Thể tích của khối chóp', (12 * 5) / 3],
    ['Tích phân', 3 ** 2 + 3 - (1 + 1)],
    ['Giá trị lớn nhất', Math.max(...[0, 1, 2].map((x) => x ** 3 - 3 * x + 1))],
    ['Một hộp có 4 viên', (4 * 3) / (10 * 9)],
    ['Trong không gian Oxyz, độ dài', Math.hypot(1, 2, -2)],
    ['Giá trị của biểu thức', Math.log(27 / 9) / Math.log(3)],
    ['Thể tích của khối lập phương', 27],
    ['Cho hai biến cố độc lập', 0.4 * 0.5],
    ['Diện tích hình phẳng', 27 / 3],
    ['Cho cấp số nhân', 2 * 3 ** 3],
    ['Cho hai biến cố A, B', 0.3 / 0.6],
  ];
  for (const [beginning, answer] of computed) {
    const question = mathsPaper().find(({ contentText }) =>
      contentText?.replace(/^Câu \d+\. /, '').startsWith(beginning),
    );
    const [right] = question?.answerKey?.correctOptionIds ?? [];
    const option = question?.options?.find(({ id }) => id === right)?.content ?? '';
    const [numerator, denominator = '1'] = option.replace('x = ', '').replace(',', '.').split('/');
    t.ok(Math.abs(Number(numerator) / Number(denominator) - answer) < 1e-9, `${beginning}: ${option}`);
  }
});

const STUDENT = asStudent({ id: 'student-1' });
const SAVE = { attemptId: 'a', as: STUDENT, body: { questionId: 'q', answer: { textAnswer: '1' } } };

t.test('the gateway loses a reply on purpose, and the client sends the request again', async (t) => {
  let served = 0;
  const url = await openReceiver(t, async (_call, response) => {
    served += 1;
    // Longer than the gateway waits before it hangs up.
    if (served === 1) await delay(200);
    answerJson(response, { status: 200, body: { success: true, data: { answer: { serverVersion: served } } } });
  });
  const gateway = openGateway(url, {});
  const requests = countRequests();
  await gateway.client('save', true).saveAnswer({ ...SAVE, observe: requests.observe });
  t.strictSame([requests.count(), requests.lastStatus(), gateway.repeated()], [2, 200, 1]);
  t.strictSame(
    [...gateway.latencies].map(([name, times]) => [name, times.count]),
    [['save', 1]],
    'a lost reply has no duration',
  );
  await gateway.client('save').saveAnswer(SAVE);
  t.equal(gateway.repeated(), 1);
});
