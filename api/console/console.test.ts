import fc from 'fast-check';
import t from 'tap';
import type { Alarm, ClusterStatus, QueueState } from '#shared/generated/operations.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { alarmsOf, notesOf } from '#shared/operations/alarms.ts';
import { pathOf, spark } from './chart.ts';
import { flag, type Html, html } from './html.ts';
import { alarmBar, verdict } from './overview.ts';
import { cookieOf, isOwnOrigin, newSession, SESSION_MS, type SessionSecrets, sealed, unsealed } from './session.ts';
import { languageOf } from './words.ts';

const text = (value: Html) => value.toString();

t.test('values between tags and in attributes are escaped', async (t) => {
  const attack = `"><script>alert('x')</script>&amp;`;
  const safe = '&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;';
  t.equal(text(html`<p title="${attack}">${attack}</p>`), `<p title="${safe}">${safe}</p>`);
});

t.test('no text leaves its place in a page', async () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (value) => {
      const page = text(html`<a class="${value}">${value}</a>`);
      const [, inAttribute = '', between = ''] = /^<a class="([^"]*)">([^<]*)<\/a>$/s.exec(page) ?? [];
      return !/[<>"']/.test(inAttribute + between) && inAttribute === between;
    }),
  );
});

t.test('a template within a template is not escaped again, and lists are joined', async (t) => {
  const items = ['a<', 'b'].map((one) => html`<li>${one}</li>`);
  t.equal(text(html`<ul>${items}${null}${undefined}${false}${0}</ul>`), '<ul><li>a&lt;</li><li>b</li>0</ul>');
});

t.test('a forged template is refused', async (t) => {
  const forged = { toString: () => '<script>', text: '<script>', isFlag: false };
  t.throws(() => html`<p>${forged as unknown as Html}</p>`);
  t.throws(() => html`<p>${JSON.parse('{"a":1}')}</p>`);
  t.throws(() => html`<p title="${html`<b></b>`}"></p>`);
});

t.test('a URL leads to this server', async (t) => {
  t.equal(text(html`<a href="${'/ops/trace?q=a&b'}">x</a>`), '<a href="/ops/trace?q=a&amp;b">x</a>');
  t.equal(text(html`<a href="/ops/trace?q=${'javascript:'}">x</a>`), '<a href="/ops/trace?q=javascript:">x</a>');
  for (const url of [
    'javascript:alert(1)',
    '//evil.example',
    '/\\evil',
    '/\t/evil.example',
    'https://evil.example',
    ' /x',
    '',
  ]) {
    t.throws(() => html`<a href="${url}">x</a>`, url);
    t.throws(() => html`<form action="${url}"></form>`, url);
  }
});

t.test('a template with a value where escaping would not help is refused', async (t) => {
  const x = 'x';
  t.throws(() => html`<p ${x}></p>`, 'an attribute');
  t.throws(() => html`<p title=${x}></p>`, 'an attribute without quotes');
  t.throws(() => html`<p title='${x}'></p>`, 'single quotes');
  t.throws(() => html`<${x}></p>`, 'the name of a tag');
  t.throws(() => html`</${x}>`, 'the name of an end tag');
  t.throws(() => html`<p onclick="${x}"></p>`, 'a handler');
  t.throws(() => html`<p style="${x}"></p>`, 'style');
  t.throws(() => html`<script>${x}</script>`, 'a script');
  t.throws(() => html`<style>${x}</style>`, 'a style sheet');
  t.throws(() => html`<!-- ${x} -->`, 'a comment');
  t.throws(() => html`<p title="${x}`, 'an open tag');
});

t.test('a flag is an attribute without a value', async (t) => {
  t.equal(text(html`<input${flag('checked', true)}><input${flag('checked', false)}>`), '<input checked><input>');
  t.throws(() => html`<p>${flag('checked', true)}</p>`);
  t.throws(() => html`<p title="${flag('checked', true)}"></p>`);
});

t.test('a chart has a gap for each minute without a sample', async (t) => {
  t.equal(pathOf([0, 2, null, 1, null, 2, 2], 2), 'M0 19L1 1M2.6 10H3.4M5 1L6 1');
  t.equal(pathOf([null, null], 0), '');
  t.equal(pathOf([0, 0], 0), 'M0 19L1 19');
});

t.test('a chart describes itself, and an empty one draws nothing', async (t) => {
  const words = {
    chart: (name: string, highest: string, newest: string) => `${name}: at most ${highest}, now ${newest}`,
    most: String,
  };
  const chart = spark('due', [3, 12, null, 4], String, words).toString();
  t.match(chart, 'aria-label="due: at most 12, now 4"');
  t.notMatch(spark('due', [null, null], String, words).toString(), '<svg');
});

const NOW = Date.UTC(2026, 10, 23, 8);
const since = new Date(NOW - 240_000);
const queue = { queue: 'grading', actor: 'grading', waiting: 1, due: 1, running: 0, dead: 1, acknowledged: 0 };
const queues = [{ ...queue, unserved: 0, suspects: 1, oldestDueMs: 90_000, workers: 0, configured: true }];
const suspects = [{ _id: 'c-1', aloneUntil: null }];
const unanswering = [{ name: 'profile', since: since.toISOString(), lastAt: since.toISOString() }];
const workers = [{ unanswering }] as Parameters<typeof alarmBar>[1]['workers'];
const heldBack = { count: 26, since };
const newest = { at: since, message: 'the notification service answered 401', _id: 'c-2' };
const refusal = { service: 'notification', status: 401 };
const failing = [{ refusal, refusedSince: since, count: 26, heldBack, newest }];
const stillest = { _id: 'c-3', workerId: 'grading@host:1', movedAt: new Date(NOW - 900_000) };
const facts = {
  queues: [{ ...queue, oldestDueMs: 90_000, suspects, poisoned: null, failing, stillest }],
  redis: { answers: false },
  now: NOW,
  schemaFaults: ['index x is missing'],
  busyLoops: [{ process: 'web@host:7', heldMs: 3_200, at: since }],
};
const reported = [{ name: 'profile', since, lastAt: since }];
/** Every kind of alarm. */
const alarms = [
  ...alarmsOf({ ...facts, liveActors: new Set(), unanswering: reported }),
  ...alarmsOf({ ...facts, liveActors: new Set(['grading']), unanswering: [] }),
] satisfies Alarm[];

const shown = (alarm: Alarm, language: 'en' | 'vi') => `${alarmBar(alarm, { queues, workers, now: NOW }, language)}`;

t.test('every kind of alarm is written in the language of the page', async (t) => {
  const kinds = new Set(alarms.map(({ kind }) => kind));
  t.strictSame([...kinds].sort(), [
    ...['backlog', 'busy-loop', 'dead-letters', 'dependency-down', 'dependency-refuses', 'held-back', 'no-worker'],
    ...['redis-down', 'schema', 'stalled-run', 'suspect'],
  ]);
  for (const alarm of alarms) {
    const [en, vi] = [shown(alarm, 'en'), shown(alarm, 'vi')];
    t.not(vi, en, alarm.kind);
    // English parts are marked as such, or are names.
    const words = vi.replaceAll(
      /<span lang="en">.*?<\/span>|<code>.*?<\/code>|<strong>(?:grading|notification|profile|web@host:7)<\/strong>/g,
      '',
    );
    t.notMatch(words, /\b(?:the|does|not|answer|check|run|since|service|scale)\b/i, `${alarm.kind}: ${words}`);
    t.notMatch(vi, /<p class="alarm" lang="en">/, alarm.kind);
  }
});

t.test('an alarm of a service states for how long it has been silent, and the setting to check', async (t) => {
  const [down] = alarms.filter(({ kind }) => kind === 'dependency-down');
  if (down === undefined) throw new Error('there is no such alarm');
  t.match(shown(down, 'en'), /<strong>profile<\/strong>: does not answer its workers for 4 min\..*PROFILE_SERVICE_URL/);
  t.match(shown(down, 'vi'), /không trả lời worker trong 4 phút/);
  t.match(`${alarmBar(down, { queues, workers: [], now: NOW }, 'en')}`, /does not answer its workers\./);
});

t.test('a refusal states the service, its status, since when, how many commands wait and the settings', async (t) => {
  const refused = alarms.find(({ kind }) => kind === 'dependency-refuses');
  if (refused === undefined) throw new Error('there is no such alarm');
  t.match(
    shown(refused, 'en'),
    /<strong>notification<\/strong>: answers 401 for 4 min, and 26 commands wait\. Correct .*NOTIFICATION_INTERNAL_SERVICE_TOKEN/,
  );
  t.match(shown(refused, 'vi'), /trả lời 401 trong 4 phút, và 26 lệnh đang chờ/);
});

t.test('an alarm of a suspect names the command', async (t) => {
  const suspect = alarms.findLast(({ kind }) => kind === 'suspect');
  if (suspect === undefined) throw new Error('there is no such alarm');
  for (const language of ['en', 'vi'] as const)
    t.match(shown(suspect, language), '<code>examhall trace c-1</code>', language);
});

t.test('notes follow the verdict, which then does not state that all is well', async (t) => {
  const parents = {
    ...queues[0],
    queue: 'gradenotices:parent',
    actor: 'gradenotices',
    unserved: 12,
    dead: 0,
    failing: [],
  } as const;
  const events = { ...queues[0], queue: 'upkeep:webhooks', actor: 'upkeep', unserved: 0, dead: 3, failing } as const;
  const noted = [parents, events] as unknown as (typeof parents & QueueState)[];
  const notes = notesOf(noted, [{ actor: 'gradenotices', queues: ['gradenotices:student'] }], NOW);
  const told = (language: 'en' | 'vi', change: Partial<ClusterStatus> = {}) =>
    `${verdict({ well: true, alarms: [], notes, ...change }, { queues: noted, workers, now: NOW }, language)}`;
  t.match(told('en'), /No alarm\.[\s\S]*<strong>gradenotices:parent<\/strong>: 12 waiting: .*PROFILE_SERVICE_URL/);
  t.match(told('en'), /<strong>upkeep:webhooks<\/strong>: <a href="\/ops\/dead-letters\?queue=upkeep:webhooks">3 dead/);
  t.match(
    told('en'),
    /<strong>upkeep:webhooks<\/strong>: 26 commands have backed off for over 10 minutes, the first for 4 min\./,
  );
  t.match(told('vi'), /Không có báo động\.[\s\S]*12 lệnh đang chờ cấu hình: <span lang="en">/);
  t.notMatch(told('en'), /All is well|class="alarm"/);
  t.match(told('en', { notes: [] }), /All is well\./);
  t.notMatch(told('en', { well: false, alarms }), /No alarm/);
});

const SIGNED_IN_AT = Date.UTC(2026, 4, 4);
const SECRETS: SessionSecrets = { opsToken: ['new-token', 'old-token'], jwtSecrets: ['new-jwt', 'old-jwt'] };
const ACCOUNT = { id: 'account-1', sessionId: 'session-1' };

t.test('a cookie contains its session until its end', async (t) => {
  for (const [account, secret] of [
    [null, 'new-token'],
    [ACCOUNT, 'new-jwt'],
  ] as const) {
    const session = newSession(account, SIGNED_IN_AT);
    const cookie = sealed(session, secret);
    t.strictSame(unsealed(cookie, SECRETS, SIGNED_IN_AT), session);
    t.strictSame(unsealed(cookie, SECRETS, SIGNED_IN_AT + SESSION_MS - 1), session);
    t.equal(unsealed(cookie, SECRETS, SIGNED_IN_AT + SESSION_MS), null, 'it has ended');
    t.notMatch(cookie, secret);
  }
  t.equal(SESSION_MS, 8 * HOUR);
});

t.test('a cookie is accepted while its secret is, and no longer', async (t) => {
  const old = sealed(newSession(null, SIGNED_IN_AT), 'old-token');
  t.ok(unsealed(old, SECRETS, SIGNED_IN_AT), 'during the rotation');
  t.equal(unsealed(old, { ...SECRETS, opsToken: ['new-token'] }, SIGNED_IN_AT), null);
  t.equal(unsealed(old, { ...SECRETS, opsToken: undefined }, SIGNED_IN_AT), null);
  t.equal(unsealed(old, { ...SECRETS, opsToken: ['', ''] }, SIGNED_IN_AT), null);
  const account = sealed(newSession(ACCOUNT, SIGNED_IN_AT), 'old-jwt');
  t.ok(unsealed(account, SECRETS, SIGNED_IN_AT));
  t.equal(
    unsealed(account, { ...SECRETS, jwtSecrets: [] }, SIGNED_IN_AT),
    null,
    'the process does not serve the auth service',
  );
});

t.test('a holder of one secret cannot sign a session of the other kind', async (t) => {
  t.equal(
    unsealed(sealed(newSession(ACCOUNT, SIGNED_IN_AT), 'new-token'), SECRETS, SIGNED_IN_AT),
    null,
    'an account by OPS_TOKEN',
  );
  t.equal(
    unsealed(sealed(newSession(null, SIGNED_IN_AT), 'new-jwt'), SECRETS, SIGNED_IN_AT),
    null,
    'OPS_TOKEN by the secret of access tokens',
  );
  const [, payload, signature] = sealed(newSession(ACCOUNT, SIGNED_IN_AT), 'new-token').split('.');
  t.equal(unsealed(`token.${payload}.${signature}`, SECRETS, SIGNED_IN_AT), null, 'renamed');
});

t.test('an altered cookie is refused and never throws', async (t) => {
  const cookie = sealed(newSession(null, SIGNED_IN_AT), 'new-token');
  for (let i = 0; i < cookie.length; i += 7) {
    const other = cookie[i] === 'A' ? 'B' : 'A';
    t.equal(unsealed(cookie.slice(0, i) + other + cookie.slice(i + 1), SECRETS, SIGNED_IN_AT), null, `character ${i}`);
  }
  for (const wrong of [
    undefined,
    '',
    '.',
    '..',
    'token..',
    'token.e30.',
    'token.e30.AAAA',
    `${cookie}.x`,
    cookie.slice(0, -3),
    'account.bnVsbA.',
  ]) {
    t.equal(unsealed(wrong, SECRETS, SIGNED_IN_AT), null, `${wrong}`);
  }
});

t.test('a form is accepted from a page of this origin', async (t) => {
  const host = 'exam.example:8443';
  t.ok(isOwnOrigin({ 'sec-fetch-site': 'same-origin' }));
  t.ok(isOwnOrigin({ host, origin: 'https://exam.example:8443' }));
  t.ok(isOwnOrigin({ host: 'EXAM.example', origin: 'http://exam.example' }));
  for (const site of ['cross-site', 'same-site', 'none', ''])
    t.notOk(isOwnOrigin({ host, origin: `https://${host}`, 'sec-fetch-site': site }), site);
  for (const origin of [
    undefined,
    'null',
    '',
    'exam.example',
    'https://evil.example',
    'https://exam.example',
    'https://a.exam.example:8443',
  ])
    t.notOk(isOwnOrigin({ host, origin }), `${origin}`);
  t.notOk(isOwnOrigin({ origin: 'https://exam.example' }), 'a request without a host');
});

t.test('a cookie is found by its whole name', async (t) => {
  t.equal(cookieOf('a=1; examhall_console=x.y=z; b=2', 'examhall_console'), 'x.y=z');
  t.equal(cookieOf('xexamhall_console=1; examhall_console_language=vi', 'examhall_console'), undefined);
  t.equal(cookieOf(undefined, 'examhall_console'), undefined);
});

t.test('the language is the chosen one, otherwise the preferred one', async (t) => {
  t.equal(languageOf('vi', 'en'), 'vi');
  t.equal(languageOf('toString', 'fr-FR, vi-VN;q=0.8, en;q=0.5'), 'vi');
  t.equal(languageOf(undefined, 'en-GB,vi;q=0.5'), 'en');
  t.equal(languageOf(undefined, '*'), 'en');
  t.equal(languageOf(undefined, undefined), 'en');
});
