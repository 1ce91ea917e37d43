import t from 'tap';
import { AUDIT_ACTIONS, writeAudit } from '#infra/mongo/operator-audit.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { postBulkAct } from '#testing/stored/stored-dead-letters.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { audit } from './audit.ts';
import { html } from './html.ts';

const mongo = await openTestMongo(t);
const screen = audit({ mongo });

async function show(query: Record<string, string> = {}, language: 'en' | 'vi' = 'en'): Promise<string> {
  const call = { params: {}, operator: 'OPS_TOKEN', proof: html``, requestId: 'r', now: Date.now() };
  return `${await screen.render({ ...call, language, query: new URLSearchParams(query) })}`;
}

t.test('a bulk act shows its queue and its counts, and leads to its page', async (t) => {
  const { _id } = await postBulkAct(mongo, { act: 'drop' });
  const page = await show({ action: 'dead.bulk-begin' });
  t.match(page, `upkeep:deadletters <a href="/ops/dead-letters/jobs/${_id}"><code>${_id}</code></a>`);
  t.match(page, '<code>act</code> drop <code>counted</code> 0');
});

t.test('a replay that charged a superseded answer is marked, in console and command line', async (t) => {
  const by = { operator: 'ADMIN a', reason: 'agreed with the school', now: Date.now() };
  const lastError = { fingerprint: 'Error: <b>', message: 'unpaid <b>', at: new Date(), code: null, refusal: null };
  const letter = { action: 'dead.replay', queue: 'settlement', subject: 's', commandId: 'c-1', lastError } as const;
  await writeAudit(mongo, by, { ...letter, chargeSuperseded: true });
  await writeAudit(mongo, by, { ...letter, subject: 'plain', commandId: 'c-2' });
  const page = await show({ subject: 's' });
  t.match(
    page,
    'settlement <a href="/ops/trace?q=c-1"><code>c-1</code></a> <strong>Charged although superseded.</strong>',
  );
  t.match(page, 'unpaid &lt;b&gt;');
  t.match(await show({ subject: 's' }, 'vi'), 'Đã tính phí dù đã bị thay thế.');
  t.notMatch(await show({ subject: 'plain' }), 'although superseded');
  const { out } = await callExamhall(mongo, ['audit']);
  t.match(out, /c-1 .*agreed with the school +chargeSuperseded true/);
  t.match(out, /c-2 .*agreed with the school +-/);
  t.match(out, /dead\.bulk-begin .*act drop, counted 0/);
});

t.test('the filter suggests every act, the read of a student’s attempts included', async (t) => {
  const page = await show();
  t.ok(AUDIT_ACTIONS.some((action) => action === 'account.attempts'));
  for (const action of AUDIT_ACTIONS) t.match(page, `<option value="${action}">`);
});
