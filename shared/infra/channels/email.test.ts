import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import t, { type Test } from 'tap';
import type { EmailSettings } from '#infra/config/channel-settings.ts';
import type { ReadContact } from '#infra/neighbours/profile.ts';
import type { MailFailure } from '#scripts/sandbox/neighbours/failure.ts';
import { readUnsubscribeToken, unsubscribeKey } from '#shared/notification/email.ts';
import { captureLog } from '#testing/captured-log.ts';
import { mailHeaders, openMailReceiver } from '#testing/neighbours/mail-receiver.ts';
import { selfSigned } from '#testing/self-signed.ts';
import { adapterSuite, sampleJob } from '#testing/suites/adapter-suite.ts';
import { holdTimeLimits, until } from '#testing/until.ts';
import { Permanent, Retryable, Unreachable } from './channel.ts';
import { logAdapter } from './channels.ts';
import { emailAdapter } from './email.ts';

const PASSWORD = 'the-password-of-the-mail-server';
const EMAIL = 'student-1@school.example';
const NOW = 1_790_000_000_000;
/** Delay of a server that hangs: longer than any test. */
const HANG_MS = 600_000;
const KEY = unsubscribeKey('a secret of the test, which is long enough');

const found: ReadContact = async () => ({
  kind: 'found',
  contact: { email: EMAIL, name: 'Nguyễn An', language: 'vi' },
});

async function setUp(
  t: Test,
  more: Partial<EmailSettings> = {},
  options: Parameters<typeof openMailReceiver>[1] = {},
  readContact = found,
) {
  const receiver = await openMailReceiver(t, options);
  const timeOut = holdTimeLimits(t);
  const settings: EmailSettings = {
    host: '127.0.0.1',
    port: receiver.port,
    tls: 'none',
    login: null,
    from: 'no-reply@school.example',
    senderName: 'Trường Lê Lợi',
    timeoutMs: 20_000,
    ...more,
  };
  const outcomes: string[] = [];
  const adapter = emailAdapter(
    { ...settings, called: (outcome) => outcomes.push(outcome) },
    { readContact, now: () => NOW, unsubscribe: { url: 'https://api.school.example/unsubscribe', key: KEY } },
  );
  const send = (job = sampleJob('email'), signal = new AbortController().signal) =>
    adapter.send(job, { signal }).then(
      ({ providerId }) => providerId,
      (error: unknown) => error,
    );
  return { receiver, adapter, timeOut, send, outcomes };
}

/** Returns the job of a `Message-ID`. */
function jobOf(messageId: string | undefined): string {
  return /^<(.+)\.email@school\.example>$/.exec(messageId ?? '')?.[1]?.concat(':email') ?? 'no id';
}

t.test('the email adapter passes the adapter suite', async (t) => {
  const { receiver, adapter } = await setUp(t);
  await adapterSuite(t, {
    adapter,
    secrets: [],
    taken: () => receiver.mails.map(({ raw }) => jobOf(mailHeaders(raw).get('message-id'))),
  });
});

t.test(
  'an e-mail has the words of the notification as text and as HTML, and the same id at each attempt',
  async (t) => {
    const { receiver, send, outcomes } = await setUp(t);
    const job = sampleJob('email');
    t.equal(await send(job), await send(job), 'the id of the provider');
    const [mail, repeat] = receiver.mails;
    const [headers, again] = [mail, repeat].map((one) => mailHeaders(one?.raw ?? ''));
    t.match(mail, { from: 'no-reply@school.example', to: [EMAIL], secure: false });
    t.equal(jobOf(headers?.get('message-id')), job.deliveryJobId);
    t.equal(again?.get('message-id'), headers?.get('message-id'));
    t.match(headers?.get('from'), /^=\?UTF-8\?\S+ <no-reply@school\.example>$/i);
    t.equal(headers?.get('auto-submitted'), 'auto-generated');
    t.equal(headers?.get('date'), 'Mon, 21 Sep 2026 14:13:20 +0000');
    t.match(mail?.raw, /Content-Type: text\/plain; charset=utf-8/);
    t.match(mail?.raw, /Content-Type: text\/html; charset=utf-8/);
    t.equal(headers?.get('list-unsubscribe-post'), 'List-Unsubscribe=One-Click');
    const [, link = ''] =
      /^<(https:\/\/api\.school\.example\/unsubscribe\?\S+)>$/.exec(headers?.get('list-unsubscribe') ?? '') ?? [];
    const token = new URL(link).searchParams.get('token') ?? '';
    t.strictSame(readUnsubscribeToken(KEY, token, NOW), { userId: job.notification.userId, channel: 'email' });
    t.equal(receiver.connections(), 1, 'one connection carries both');
    t.strictSame(outcomes, ['ok', 'ok']);
  },
);

t.test('no title, name or content adds a header or a recipient', async (t) => {
  const name = 'An\r\nBcc: thief@evil.example';
  const { receiver, send } = await setUp(t, {}, {}, async () => ({
    kind: 'found',
    contact: { email: EMAIL, name, language: 'en' },
  }));
  const attack = 'Điểm\r\nBcc: thief@evil.example\r\n\r\n<script>x</script>\r\n.\r\nRCPT TO:<thief@evil.example>';
  const job = sampleJob('email');
  const notification = { ...job.notification, title: attack, content: attack };
  t.type(await send({ ...job, notification }), 'string');
  t.equal(receiver.mails.length, 1);
  t.strictSame(receiver.mails[0]?.to, [EMAIL]);
  t.notOk(mailHeaders(receiver.mails[0]?.raw ?? '').has('bcc'));
});

t.test('an e-mail to a server with STARTTLS is encrypted, with a login', async (t) => {
  const certificate = selfSigned();
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, certificate.cert]);
  t.teardown(() => setDefaultCACertificates(trusted));
  const login = { user: 'examhall', password: PASSWORD };
  for (const tls of ['starttls', 'implicit'] as const) {
    const options = { certificate, login, implicit: tls === 'implicit' };
    const { receiver, send } = await setUp(t, { tls, login, host: 'localhost' }, options);
    t.type(await send(), 'string', tls);
    t.match(receiver.mails, [{ secure: true, user: 'examhall' }], tls);
  }
  const wrong = { user: 'examhall', password: 'another password' };
  const { send, receiver } = await setUp(
    t,
    { tls: 'starttls', login: wrong, host: 'localhost' },
    { certificate, login },
  );
  const error = await send();
  t.ok(error instanceof Retryable, 'an operator corrects a login');
  t.match(error, { message: 'the mail server answered 535 to AUTH' });
  t.strictSame(receiver.mails, []);
});

t.test(
  'no e-mail is sent in plain text if TLS is required, nor to a server whose certificate is unknown',
  async (t) => {
    const login = { user: 'examhall', password: PASSWORD };
    for (const options of [{}, { certificate: selfSigned() }]) {
      const { receiver, send, outcomes } = await setUp(t, { tls: 'starttls', login, host: 'localhost' }, options);
      const error = await send();
      t.ok(error instanceof Retryable, String(error));
      t.notMatch(String(error), PASSWORD);
      t.strictSame(receiver.mails, []);
      t.strictSame(outcomes, ['unanswered']);
    }
  },
);

const LEAK = 'no: Điểm của em là 9,25 <student-1@school.example>';

const refused: [MailFailure, typeof Retryable | typeof Permanent][] = [
  [{ at: 'connection', answer: 421 }, Retryable],
  [{ at: 'connection', answer: 554 }, Retryable],
  [{ at: 'sender', answer: 451 }, Retryable],
  [{ at: 'sender', answer: 550 }, Retryable],
  [{ at: 'recipient', answer: 450 }, Retryable],
  [{ at: 'recipient', answer: 503 }, Retryable],
  [{ at: 'recipient', answer: 550 }, Permanent],
  [{ at: 'recipient', answer: 552 }, Retryable],
  [{ at: 'recipient', answer: 553 }, Permanent],
  [{ at: 'text', answer: 421 }, Retryable],
  [{ at: 'text', answer: 452 }, Retryable],
  [{ at: 'text', answer: 552 }, Permanent],
  [{ at: 'text', answer: 552, text: '5.2.2 mailbox full' }, Retryable],
  [{ at: 'text', answer: 554 }, Permanent],
];

t.test('a refusal is permanent if it concerns the recipient or the text, and quotes neither', async (t) => {
  const { receiver, send, outcomes } = await setUp(t);
  for (const [failure, thrown] of refused) {
    const told = JSON.stringify(failure);
    receiver.failure.set({ text: LEAK, ...failure });
    const error = await send();
    t.ok(error instanceof thrown, `${told}: ${String(error)}`);
    const all = error instanceof Error ? `${error.message} ${error.stack} ${String(error.cause)}` : '';
    t.match(all, String(failure.answer));
    t.notMatch(all, /school\.example|9,25/, told);
    t.equal(outcomes.at(-1), thrown === Permanent ? 'refused' : 'failed', told);
  }
  t.strictSame(receiver.mails, []);
  receiver.failure.set(null);
  t.type(await send(), 'string', 'the next e-mail goes out');
});

t.test('a server that hangs ends with the time limit, and a cut connection is retryable', async (t) => {
  const { receiver, send, timeOut } = await setUp(t);
  for (const at of ['connection', 'recipient', 'text'] as const) {
    receiver.failure.set({ delayMs: HANG_MS, at });
    const sending = send();
    await until('the server hangs', () => receiver.failure.shown()?.failed === 1);
    timeOut();
    const error = await sending;
    t.ok(error instanceof Retryable, at);
    t.match(error, { message: 'the mail server did not answer within 20000 ms' });
  }
  receiver.failure.set({ drop: true, at: 'text' });
  const long = sampleJob('email');
  const cut = await send({ ...long, notification: { ...long.notification, content: 'dài '.repeat(5_000) } });
  t.ok(cut instanceof Retryable, String(cut));
  t.match(cut, { message: 'the mail server sent no complete reply' });
  t.strictSame(receiver.mails, []);

  receiver.failure.set(null);
  t.type(await send(), 'string');
  receiver.cutAll();
  t.type(await send(), 'string', 'a connection that the server has closed is replaced');
});

t.test('an abort during the e-mail rejects with its reason and frees the connection', async (t) => {
  const { receiver, send } = await setUp(t);
  receiver.failure.set({ delayMs: HANG_MS, at: 'text' });
  const abort = new AbortController();
  const sending = send(sampleJob('email'), abort.signal);
  await until('the server hangs', () => receiver.failure.shown()?.failed === 1);
  const reason = new Error('the process is stopping');
  abort.abort(reason);
  t.equal(await sending, reason);
});

t.test('a user without an address is unreachable, and a failing profile service is retryable', async (t) => {
  const reply = { status: 503, body: null, retryAfterMs: 900_000_000 };
  const cases: [Awaited<ReturnType<ReadContact>>, object][] = [
    [
      { kind: 'found', contact: null },
      { name: 'Unreachable', reason: 'NO_ADDRESS' },
    ],
    [
      { kind: 'refused', reply },
      { name: 'Retryable', message: 'the profile service answered 503', afterMs: 3_600_000 },
    ],
    [{ kind: 'unanswered', error: new Error('cut') }, { message: 'the profile service sent no complete reply' }],
  ];
  for (const [read, thrown] of cases) {
    const { receiver, send } = await setUp(t, {}, {}, async () => read);
    const error = await send();
    t.match(error, thrown);
    t.equal(error instanceof Unreachable, read.kind === 'found');
    t.equal(receiver.connections(), 0);
  }
});

t.test('the log adapter passes the adapter suite, and logs neither content nor user', async (t) => {
  const log = captureLog();
  const adapter = logAdapter(log);
  await adapterSuite(t, {
    adapter,
    secrets: [],
    taken: () => log.lines.map(({ fields }) => String(fields.deliveryJobId)),
  });
  for (const { fields } of log.lines) {
    t.strictSame(Object.keys(fields).sort(), ['deliveryJobId', 'notificationId', 'type']);
  }
});
