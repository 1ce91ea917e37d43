import t from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { listBulks } from '#infra/mongo/operations/bulk-acts.ts';
import { AUDIT_ACTIONS, writeAudit } from '#infra/mongo/operator-audit.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { postBulkAct, storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';
import { postSettlement } from '#testing/stored/stored-model-work.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { audit } from './audit.ts';
import { bulkAct, confirmAct } from './dead-letter-acts.ts';
import { html } from './html.ts';
import { formOf, type PageCall, type Shown } from './screen.ts';

const mongo = await openTestMongo(t);
const deps = { mongo, log: { info: () => undefined }, commandAttempts: 10 } as unknown as Parameters<
  typeof confirmAct
>[0];
const screen = confirmAct(deps);

const callOf = (query: Record<string, string>, language: PageCall['language'] = 'en'): PageCall => ({
  params: {},
  query: new URLSearchParams(query),
  language,
  operator: 'ADMIN a',
  proof: html``,
  requestId: 'r',
  now: Date.now(),
});
const confirm = async (query: Record<string, string>, language?: PageCall['language']) =>
  `${await screen.render(callOf(query, language))}`;
const textOf = (done: { to: string } | Shown | undefined) =>
  done !== undefined && 'status' in done ? { status: done.status, text: `${done.html}` } : done;

/** Sends the form of the page with these fields. */
async function send(fields: Record<string, string>) {
  const form = formOf(Object.entries(fields).map(([name, value]) => ({ name, value })));
  return textOf(await screen.acts?.[0]?.run({ ...callOf({}), form }));
}

/** Stores a dead settlement whose answer no request returns any longer. Returns its id. */
async function supersededLetter(): Promise<string> {
  const { _id, subject } = await postSettlement(mongo);
  await generations(mongo).updateOne({ _id: subject }, { $set: { closed: 'SUPERSEDED' } } as never);
  const error = { fingerprint: 'Error: unpaid', message: 'unpaid', at: new Date(), code: null, refusal: null };
  await mailboxOf(mongo, 'settlement').updateOne(
    { _id },
    { $set: { status: 'DEAD', settledAt: new Date(Date.now() - 1_000), lastError: error } },
  );
  return _id;
}

const auditMongo = await openTestMongo(t);

t.test('a form that is sent again with another consent is refused, and links to the first act', async (t) => {
  await storeDeadGrading(mongo);
  const form = { act: 'replay', queue: 'grading', key: 'one-form', reason: 'the disk was cleared' };
  const first = (await send(form)) as { to: string };
  t.match(first.to, /^\/ops\/dead-letters\/jobs\/./);
  t.strictSame(await send(form), first, 'an equal form leads to the same act');
  for (const change of [{ charge: '1' }, { reason: 'another reason' }, { act: 'drop' }, { queue: 'settlement' }]) {
    const refused = await send({ ...form, ...change });
    t.match(refused, { status: 409, text: /role="alert".*not carried out/ }, JSON.stringify(change));
    t.match(refused, { text: `href="${first.to}"` });
  }
  t.match(
    await send({ ...form, charge: '1' }),
    { text: /confirm\?queue=grading&amp;act=replay"/ },
    'the way to begin anew',
  );
  t.match(await listBulks(mongo, 10), [{ body: { act: 'replay', chargeSuperseded: false } }]);
});

t.test(
  'a page counts a superseded settlement only with the consent, and without words of the command line',
  async (t) => {
    const id = await supersededLetter();
    const page = await confirm({ act: 'replay', id });
    t.match(page, /<strong>0 would be replayed\.<\/strong>/);
    t.match(page, /Superseded: a replay would charge an answer/);
    t.match(page, /Without the box below, superseded settlements among them are skipped/);
    t.notMatch(page, /--charge-superseded|name="charge" value="1" checked/);
    t.match(await confirm({ act: 'replay', id }, 'vi'), /Đã bị thay thế: chạy lại sẽ tính phí/);

    const again = await send({ act: 'replay', id, charge: '1', reason: 'no' });
    t.match(again, { status: 400, text: /<strong>1 would be replayed\.<\/strong>/ });
    t.match(again, { text: /name="charge" value="1" checked>/ }, 'the consent stays ticked');
    t.match(await send({ act: 'replay', id, reason: 'the wallet is back' }), { status: 200, text: /0 of 1 letters/ });
    const charged = await send({ act: 'replay', id, charge: '1', reason: 'the wallet is back' });
    t.match(charged, { status: 200, text: /1 of 1 letters/ });
  },
);

t.test('an act on the letters of an erased person is refused in the form', async (t) => {
  await erasePerson(mongo, 'student-7', { operator: 'an', reason: 'a test', now: Date.now() });
  const form = { act: 'drop', subject: 'student-7', reason: 'the disk was cleared', key: 'of-an-erased-person' };
  t.match(await send(form), { status: 410, text: /role="alert">The subject is an erased person/ });
  const acts = JSON.stringify(await listBulks(mongo, 10));
  t.notMatch(acts, 'student-7');
});

t.test('five blanks are no reason, neither for an act nor for its stop', async (t) => {
  const { _id: id } = await storeDeadGrading(mongo);
  t.match(await send({ act: 'drop', id, reason: '      ' }), { status: 400, text: /role="alert"/ });
  const [act] = await listBulks(mongo, 1);
  const stop = bulkAct(deps).acts?.[0];
  const form = formOf([{ name: 'reason', value: '      ' }]);
  const stopped = await stop?.run({ ...callOf({}), params: { id: act?._id ?? '' }, form });
  t.match(textOf(stopped), { status: 400, text: /role="alert"/ });
});

t.test('an act takes the letters that its page counted, and none that died while the page was open', async (t) => {
  await storeDeadGrading(mongo);
  const page = await confirm({ act: 'ack', queue: 'grading' });
  const [, countedAt = ''] = /name="countedAt" value="([^"]+)"/.exec(page) ?? [];
  t.not(countedAt, '');
  await send({ act: 'ack', queue: 'grading', key: 'late', reason: 'ticket 4711', countedAt });
  t.match(await listBulks(mongo, 1), [{ body: { filter: { queue: 'grading', until: new Date(countedAt) } } }]);
});
const auditScreen = audit({ mongo: auditMongo });
const showAudit = async (query: Record<string, string> = {}, language?: PageCall['language']) =>
  `${await auditScreen.render(callOf(query, language))}`;

t.test('a bulk act shows its queue and its counts, and leads to its page', async (t) => {
  const { _id } = await postBulkAct(auditMongo, { act: 'drop' });
  const page = await showAudit({ action: 'dead.bulk-begin' });
  t.match(page, `upkeep:deadletters <a href="/ops/dead-letters/jobs/${_id}"><code>${_id}</code></a>`);
  t.match(page, '<code>act</code> drop <code>counted</code> 0');
});

t.test('a replay that charged a superseded answer is marked, in console and command line', async (t) => {
  const by = { operator: 'ADMIN a', reason: 'agreed with the school', now: Date.now() };
  const lastError = { fingerprint: 'Error: <b>', message: 'unpaid <b>', at: new Date(), code: null, refusal: null };
  const letter = { action: 'dead.replay', queue: 'settlement', subject: 's', commandId: 'c-1', lastError } as const;
  await writeAudit(auditMongo, by, { ...letter, chargeSuperseded: true });
  await writeAudit(auditMongo, by, { ...letter, subject: 'plain', commandId: 'c-2' });
  const page = await showAudit({ subject: 's' });
  t.match(
    page,
    'settlement <a href="/ops/trace?q=c-1"><code>c-1</code></a> <strong>Charged although superseded.</strong>',
  );
  t.match(page, 'unpaid &lt;b&gt;');
  t.match(await showAudit({ subject: 's' }, 'vi'), 'Đã tính phí dù đã bị thay thế.');
  t.notMatch(await showAudit({ subject: 'plain' }), 'although superseded');
  const { out } = await callExamhall(auditMongo, ['audit']);
  t.match(out, /c-1 .*agreed with the school +chargeSuperseded true/);
  t.match(out, /c-2 .*agreed with the school +-/);
  t.match(out, /dead\.bulk-begin .*act drop, counted 0/);
});

t.test('the filter suggests every act, the read of a student’s attempts included', async (t) => {
  const page = await showAudit();
  t.ok(AUDIT_ACTIONS.some((action) => action === 'account.attempts'));
  for (const action of AUDIT_ACTIONS) t.match(page, `<option value="${action}">`);
});
