import t from 'tap';
import { openMailServer } from '#infra/channels/mail-server.ts';
import { readConfig } from '#infra/config/config.ts';
import { exchange } from '#testing/clients/http-call.ts';
import { until } from '#testing/until.ts';
import { mailEnvironment, standInEnvironment } from './environment.ts';
import { type KeptMail, openMailStandIn } from './mail.ts';
import { openStandIns } from './open-stand-ins.ts';

const SUBJECT = 'Điểm bài kiểm tra một tiết môn Toán của em Nguyễn Thị Phương Quỳnh đã có, lớp 12A1';

t.test('the mail server takes e-mails of the email channel and shows them over HTTP', async (t) => {
  const heard: KeptMail[] = [];
  const standIns = await openStandIns({ env: {}, mailPort: 0, heardMail: (mail) => void heard.push(mail) });
  t.teardown(standIns.close);
  const env = { MONGODB_URL: 'mongodb://127.0.0.1/', INTERNAL_SERVICE_TOKEN: 'dev-internal-token', ...standIns.env };
  const { channels, email } = readConfig(env).notification;
  t.strictSame([...channels], ['webhook', 'email']);
  if (email === null) throw new Error('the channel is not configured');
  const send = await openMailServer(email);
  const mail = { from: email.from, to: 'hs001@hocsinh.example', subject: SUBJECT, text: 'Xem điểm' };
  await send(mail, AbortSignal.timeout(20_000));
  await send({ ...mail, subject: 'plain' }, AbortSignal.timeout(20_000));
  const shown = { from: email.from, to: ['hs001@hocsinh.example'], subject: SUBJECT };
  await until('both have arrived', () => heard.length === 2);
  t.match(heard, [shown, { subject: 'plain' }]);
  // biome-ignore lint/suspicious/noExplicitAny: replies are matched field by field
  const control = (method: string) => exchange<any>(`${standIns.url}/_control/mail`, { method });
  t.match(await control('GET'), { status: 200, data: { mails: [shown, { subject: 'plain' }] } });
  t.match(await control('DELETE'), { status: 200, data: { mails: [] } });
  t.equal((await control('PUT')).status, 405);
  t.match(await (await fetch(standIns.url)).text(), `NOTIFICATION_EMAIL_PORT=${email.port}\n`);
});

t.test('without a mail server the stand-ins name none, and a port in use is an error', async (t) => {
  const standIns = await openStandIns({ env: {} });
  t.teardown(standIns.close);
  t.equal((await exchange(`${standIns.url}/_control/mail`, {})).status, 404);
  t.equal(standIns.env.NOTIFICATION_CHANNELS, 'webhook');
  const first = await openMailStandIn(0);
  t.teardown(first.close);
  await t.rejects(openStandIns({ env: {}, mailPort: first.port }), { code: 'EADDRINUSE' });
});

t.test('the port of the mail server is the one after that of the stand-ins', async (t) => {
  const url = 'http://127.0.0.1:3999';
  t.match(mailEnvironment(url), { NOTIFICATION_EMAIL_PORT: '4000', NOTIFICATION_EMAIL_HOST: '127.0.0.1' });
  t.equal({ ...standInEnvironment(url), ...mailEnvironment(url) }.NOTIFICATION_CHANNELS, 'webhook,email');
});
