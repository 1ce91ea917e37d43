import { PassThrough } from 'node:stream';
import t from 'tap';
import { commonPasswords } from '#infra/passwords/common-passwords.ts';
import { answerJson, openReceiver } from '#scripts/http/local-server.ts';
import { contactsOf, runtimeOf, schoolOf } from '#scripts/sandbox/school/school.ts';
import { passwordFaults } from '#shared/auth/password-policy.ts';
import { contactOf } from '#shared/notification/email.ts';
import { DEVELOPMENT_PASSWORD } from './people.ts';
import { runSeed, startingPoints } from './run-seed.ts';

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
  const context = { email: 'a@b.example', fullName: 'A', minLength: 8, isCommon: commonPasswords() };
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
