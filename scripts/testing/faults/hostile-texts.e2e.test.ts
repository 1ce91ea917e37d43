import t, { type Test } from 'tap';
import { attemptClient, choice, shortText } from '#testing/clients/attempt-client.ts';
import { authClient, newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { processorTimes } from '#testing/processor-time.ts';

/**
 * Attacks by one text whose normalization takes the square of its length, each as it was carried out against an earlier state. The comment of
 * a test states its result at that time. The measure is a harmless text of the same size, sent in turns with the hostile one.
 */

const cluster = await startCluster(t, { inside: true, workers: ['grading'], neighbours: false });
const [auth, attempts] = [await authClient(cluster), await attemptClient(cluster)];

/** Returns marks in the wrong order, which normalization sorts by insertion. */
const marks = (count: number) => `a${'\u0301'.repeat(count)}${'\u0323'.repeat(count)}`;
/** Returns a text with as many characters and bytes as `marks` of this count. */
const harmless = (count: number) => `a${'é'.repeat(2 * count)}`;
const FAULT = { message: 'must not contain more than 30 combining marks in a row' };

/** Checks that a hostile piece of work takes about the processor time of the harmless one. */
async function takesNoLonger(t: Test, hostile: () => Promise<unknown>, usual: () => Promise<unknown>): Promise<void> {
  const [attack = 0, measure = 0] = await processorTimes([hostile, usual]);
  t.ok(attack < 5 * measure + 50, `${attack} ms; the harmless one ${measure} ms`);
}

/** Calls of the three routes that take a password. */
async function passwordCalls() {
  const email = newEmail();
  const { accessToken } = (await auth.register({ email })).data;
  return {
    email,
    register: (password: string) => auth.register({ password }),
    login: (password: string) => auth.login(email, password),
    change: (current: string, next: string) => auth.as(accessToken).changePassword(current, next),
  };
}

// Before: one request of 256 KB without an account held the front door for 8 s, and every other request and probe with it.
t.test('no password holds a front door', async (t) => {
  const { email, register, login, change } = await passwordCalls();
  /** As many as a body of 256 KiB holds. */
  const many = 65_450;
  for (const send of [
    register,
    login,
    (text: string) => change(text, PASSWORD),
    (text: string) => change(PASSWORD, text),
  ]) {
    t.match(await send(marks(many)), { status: 400, json: { code: 'VALIDATION_FAILED' } });
    await takesNoLonger(
      t,
      () => send(marks(many)),
      () => send(harmless(many)),
    );
  }
  t.equal(await cluster.mongo.collection('auth_throttles').countDocuments(), 0, 'none of them is counted');
  t.equal((await auth.login(email)).status, 200);
});

// Before: the rules of a registration read fields that its schema had refused, and 200 KB of spaces in a phone took three minutes.
t.test('no field of a registration that is too long holds a front door', async (t) => {
  for (const field of ['phone', 'fullName', 'email', 'role']) {
    for (const unseen of [' ', '\u3164', '\u0301']) {
      const size = 50_000;
      const send = (filling: string) => auth.register({ [field]: `a${filling.repeat(size)}a` });
      t.match(await send(unseen), { status: 400, json: { details: [{ path: `/${field}` }] } });
      await takesNoLonger(
        t,
        () => send(unseen),
        () => send('é'),
      );
    }
  }
});

t.test('a run of combining marks is refused in a new password, and wrong in a presented one', async (t) => {
  const { register, login, change } = await passwordCalls();
  const marked = marks(511);
  t.match(await register(marked), { status: 400, json: { details: [{ path: '/password', ...FAULT }] } });
  t.match(await change(PASSWORD, marked), { status: 400, json: { details: [{ path: '/newPassword', ...FAULT }] } });
  const wrong = { status: 401, json: { code: 'AUTH_INVALID_CREDENTIALS' } };
  t.match(await login(marked), wrong);
  t.match(await change(marked, 'Sông Đà núi Tản 1802'), wrong);
  await takesNoLonger(
    t,
    () => register(marked),
    () => register(harmless(511)),
  );
});

const QUESTIONS = Array.from({ length: 6 }, (_, index) => shortText(`q${index}`, ['Hà Nội', 'Thăng Long']));

/** A student answers every question with the same text. Returns the submit. */
async function answered(textAnswer: string) {
  const { student, id } = await attempts.sitting({ questions: QUESTIONS });
  for (const { questionId } of QUESTIONS) {
    const saved = await student.save(id, { questionId, textAnswer });
    t.equal(saved.status, 200);
  }
  return { student, id, submit: () => student.submit(id) };
}

// Before: six answers of 100,000 characters of one student kept every submit of all students waiting for 31 s; with twenty, each worker in turn lost its lease.
t.test('no answer holds a worker that grades', async (t) => {
  const rounds = 2;
  const [hostile, usual] = await Promise.all(
    [marks(10_000), harmless(10_000)].map(async (text) => {
      const sittings = [];
      for (let n = 0; n < rounds; n += 1) sittings.push(await answered(text));
      return sittings;
    }),
  );
  const submits = [hostile, usual].map((sittings = []) => {
    const rest = [...sittings];
    return async () => {
      const reply = await rest.shift()?.submit();
      t.match(reply, { status: 200, data: { status: 'GRADED', correctCount: 0, wrongCount: 6 } });
    };
  });
  const [attack = 0, measure = 0] = await processorTimes(submits, rounds);
  t.ok(attack < 5 * measure + 50, `${attack} ms; the harmless ones ${measure} ms`);

  const { student, id, submit } = await answered(`Hà Nội${'\u0301'.repeat(31)}`);
  t.match(await submit(), { data: { correctCount: 0 } });
  const { answers } = (await student.get(id)).data;
  t.equal(answers[0].answer.textAnswer, `Hà Nội${'\u0301'.repeat(31)}`, 'it is stored as it was sent');
});

t.test('a run of combining marks is refused wherever a text is stored or searched', async (t) => {
  const marked = marks(16);
  const student = attempts.student();
  const refused = (path: string) => ({
    status: 400,
    json: { code: 'VALIDATION_FAILED', details: [{ path, message: /more than 30 combining marks/ }] },
  });
  const questions = [choice('q1', { content: marked })];
  t.match(await student.start('exam-1', { questions }), refused('/questions/0/content'));
  t.match(
    await student.start('exam-1', { questions: [shortText('q1', [marked])] }),
    refused('/questions/0/answerKey/acceptedTexts/0'),
  );
  t.match(await student.start('exam-1', { studentInfo: { [marked]: 1 } }), refused(`/studentInfo/${marked}`));
  t.match(await student.start('exam-1', { studentInfo: { a: [marked] } }), refused('/studentInfo/a/0'));

  const { student: sitter, id } = await attempts.sitting();
  const answer = { questionId: 'q1', selectedOptionIds: ['a'] };
  t.match(await sitter.save(id, { ...answer, sourceTabId: marked }), refused('/sourceTabId'));
  t.match(await sitter.post(id, 'TAB_HIDDEN', { tab: { title: marked } }), refused('/metadata/tab/title'));
  const headers = { 'x-actor-id': sitter.id, 'x-actor-role': 'STUDENT' };
  const target = `/v1/notifications?q=${encodeURIComponent(marked)}`;
  t.match(await cluster.request('GET', target, { headers }), refused('/q'));
});
