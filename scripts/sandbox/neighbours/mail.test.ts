import t, { type Test } from 'tap';
import { Permanent, Retryable } from '#infra/channels/channel.ts';
import { openMailServer } from '#infra/channels/email.ts';
import { readConfig } from '#infra/config/config.ts';
import { runNeighbours } from '#scripts/sandbox/neighbours.ts';
import { exchange } from '#testing/clients/call.ts';
import { holdTimeLimits, until } from '#testing/until.ts';
import { mailEnvironment, standInEnvironment } from './environment.ts';
import type { MailFailure } from './failure.ts';
import { openMailStandIn } from './mail.ts';
import { openStandIns, type StandInOptions } from './open-stand-ins.ts';

const SUBJECT = 'Điểm bài kiểm tra một tiết môn Toán của em Nguyễn Thị Phương Quỳnh đã có, lớp 12A1';

/** Opens the stand-ins, and the product's own mail client by the environment that they print. */
async function setUp(t: Test) {
  const heard: Parameters<NonNullable<StandInOptions['heard']>>[0][] = [];
  const standIns = await openStandIns({ env: {}, mailPort: 0, heard: (call) => void heard.push(call) });
  t.teardown(standIns.close);
  const { mail: standIn, env } = standIns;
  const set = { MONGODB_URL: 'mongodb://127.0.0.1/', INTERNAL_SERVICE_TOKEN: 'dev-internal-token', ...env };
  const { channels, email } = readConfig(set, 'cluster').notification;
  if (email === null || standIn === null) throw new Error('the channel is not configured');
  const server = await openMailServer(email);
  /** Sends an e-mail. Returns null, or the error. */
  const send = ({ to = 'hs001@hocsinh.example', subject = SUBJECT } = {}): Promise<unknown> =>
    server({ from: email.from, to, subject, text: 'Xem điểm' }, new AbortController().signal).then(
      () => null,
      (error: unknown) => error,
    );
  const control = (method: string, body?: unknown) =>
    // biome-ignore lint/suspicious/noExplicitAny: replies are matched field by field
    exchange<any>(`${standIns.url}/_control/mail`, { method, body });
  return { standIns, standIn, heard, channels, email, send, control };
}

t.test('the mail server takes e-mails of the email channel and shows them over HTTP', async (t) => {
  const { standIns, heard, channels, email, send, control } = await setUp(t);
  t.strictSame([...channels], ['webhook', 'email']);
  t.equal(await send(), null);
  t.equal(await send({ subject: 'plain' }), null);
  t.strictSame(heard, [
    { name: 'mail', status: 250, about: `hs001@hocsinh.example: ${SUBJECT}` },
    { name: 'mail', status: 250, about: 'hs001@hocsinh.example: plain' },
  ]);
  const shown = { from: email.from, to: ['hs001@hocsinh.example'], subject: SUBJECT };
  const data = { mails: [shown, { subject: 'plain' }], calls: 2, answered: { 250: 2 }, failure: null };
  t.match(await control('GET'), { status: 200, data });
  const deleted = await control('DELETE');
  t.match(deleted, { status: 200, data: { mails: [], calls: 0 } });
  t.strictSame(deleted.data.answered, {});
  t.equal((await control('POST')).status, 405);
  t.match(await (await fetch(standIns.url)).text(), `NOTIFICATION_EMAIL_PORT=${email.port}\n`);
});

const NO_REPLY = 'the mail server sent no complete reply';
const FAILURES: readonly { failure: MailFailure; error: typeof Retryable | typeof Permanent; message: string }[] = [
  { failure: { answer: 550 }, error: Permanent, message: 'the mail server answered 550 to RCPT TO' },
  { failure: { answer: 450 }, error: Retryable, message: 'the mail server answered 450 to RCPT TO' },
  { failure: { answer: 554, at: 'text' }, error: Permanent, message: 'the mail server answered 554 to DATA' },
  { failure: { answer: 550, at: 'sender' }, error: Retryable, message: 'the mail server answered 550 to MAIL FROM' },
  { failure: { answer: 535, at: 'sign-in' }, error: Retryable, message: 'the mail server answered 535 to AUTH' },
  {
    failure: { answer: 421, at: 'connection' },
    error: Retryable,
    message: 'the mail server answered 421 to the connection',
  },
  { failure: { drop: true }, error: Retryable, message: NO_REPLY },
  { failure: { drop: true, at: 'connection' }, error: Retryable, message: NO_REPLY },
  { failure: { lose: true }, error: Retryable, message: NO_REPLY },
  { failure: { lose: true, answer: 451 }, error: Retryable, message: 'the mail server answered 451 to DATA' },
];

t.test('with each failure the email channel reports what a real server would make it report', async (t) => {
  const { standIn, heard, send } = await setUp(t);
  // The next failures meet a sender that keeps a connection from before them.
  t.equal(await send(), null);
  for (const { failure, error, message } of FAILURES) {
    const name = JSON.stringify(failure);
    standIn.forget();
    heard.length = 0;
    standIn.failure.set(failure);
    const failed = await send();
    t.ok(failed instanceof error, name);
    t.match(failed, { message });
    t.equal(standIn.mails.length, failure.lose === true ? 1 : 0, `${name} takes effect or not`);
    t.ok(
      heard.some(({ status }) => status === (failure.answer ?? null)),
      name,
    );
    standIn.failure.set(null);
    t.equal(await send(), null, `the server takes e-mails after ${name}`);
  }
});

t.test('a mail server that hangs costs one e-mail its time limit', async (t) => {
  const { standIn, send } = await setUp(t);
  const timeOut = holdTimeLimits(t);
  for (const at of ['connection', 'sign-in', 'recipient', 'text'] as const) {
    standIn.failure.set({ delayMs: 600_000, at });
    const sending = send();
    await until(`the server hangs at the ${at}`, () => (standIn.failure.shown()?.failed ?? 0) > 0);
    timeOut();
    const failed = await sending;
    t.ok(failed instanceof Retryable, at);
    t.match(failed, { message: /^the mail server did not answer within/ });
    standIn.failure.set(null);
    t.equal(await send(), null);
  }
});

t.test('greylisting is a failure that ends, of one address, begun and shown by the command', async (t) => {
  const { standIns, send, control } = await setUp(t);
  const lines: string[] = [];
  const faults: string[] = [];
  const around = {
    env: {},
    print: (line: string) => void lines.push(line),
    fail: (line: string) => void faults.push(line),
    signal: new AbortController().signal,
  };
  const run = (...words: string[]) => runNeighbours([...words, '--port', new URL(standIns.url).port], around);
  const fail = (...members: string[]) => run('fail', 'mail', ...members);
  t.equal(await fail('answer=450', 'times=1', 'only=hs001@'), 0);
  t.equal(await send({ to: 'hs002@hocsinh.example' }), null, 'another address');
  await run('show');
  t.match(lines.at(-1), /^mail +1 calls {2}250=1 {2}fails: answer=450 times=1 only=hs001@ failed=0$/);
  t.ok((await send()) instanceof Retryable);
  t.equal(await send(), null, 'the second attempt succeeds');
  t.match((await control('GET')).data, { failure: null, calls: 3, answered: { 250: 2, 450: 1 } });
  t.equal(await fail('answer=550'), 0);
  t.equal(await fail(), 0);
  t.equal(lines.at(-1), 'mail answers again');
  t.equal(await send(), null);
  t.equal(await fail('answer=250'), 1);
  t.match(faults, [/this is no failure; \/answer must be >= 400$/]);
});

t.test('an invalid failure of the mail server is refused and changes nothing', async (t) => {
  const { control } = await setUp(t);
  const faulty = [{}, { answer: 200 }, { refuse: 450 }, { answer: 550, retryAfter: 1 }, { answer: 550, drop: true }];
  for (const body of [...faulty, { at: 'text' }, { drop: true, at: 'greeting' }, { lose: true, at: 'recipient' }])
    t.match(await control('PUT', body), { status: 400 }, JSON.stringify(body));
  t.equal((await control('GET')).data.failure, null);
});

t.test('the mail server requires its login', async (t) => {
  const { standIn, email } = await setUp(t);
  const mail = { from: email.from, to: 'hs001@hocsinh.example', subject: 'plain', text: 'Xem điểm' };
  const logins = [
    [{ user: 'examhall', password: 'another' }, 'AUTH'],
    [null, 'MAIL FROM'],
  ] as const;
  for (const [login, step] of logins) {
    const server = await openMailServer({ ...email, login });
    const message = new RegExp(`^the mail server answered 53[05] to ${step}$`);
    await t.rejects(server(mail, new AbortController().signal), { message });
  }
  t.strictSame(standIn.mails, []);
});

t.test('without a mail server the stand-ins name none, and a port in use is an error', async (t) => {
  const standIns = await openStandIns({ env: {} });
  t.teardown(standIns.close);
  t.equal((await exchange(`${standIns.url}/_control/mail`, {})).status, 404);
  t.equal(standIns.env.NOTIFICATION_CHANNELS, 'webhook');
  const first = await openMailStandIn();
  t.teardown(first.close);
  await t.rejects(openStandIns({ env: {}, mailPort: first.port }), { code: 'EADDRINUSE' });
});

t.test('the port of the mail server is the one after that of the stand-ins', async (t) => {
  const url = 'http://127.0.0.1:3999';
  t.match(mailEnvironment(url), { NOTIFICATION_EMAIL_PORT: '4000', NOTIFICATION_EMAIL_HOST: '127.0.0.1' });
  t.equal({ ...standInEnvironment(url), ...mailEnvironment(url) }.NOTIFICATION_CHANNELS, 'webhook,email');
});
