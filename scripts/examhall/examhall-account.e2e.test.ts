import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { parseArgs } from 'node:util';
import t from 'tap';
import { findAccount, findAccountByEmail } from '#infra/mongo/auth/accounts.ts';
import { accounts, sessions, throttles } from '#infra/mongo/auth/collections.ts';
import { newestSecurityEvents } from '#infra/mongo/auth/sessions.ts';
import { recordFailure, throttleKey } from '#infra/mongo/auth/throttle.ts';
import { OPERATOR_AUDIT } from '#infra/mongo/operator-audit.ts';
import { openHasher } from '#infra/passwords/hasher.ts';
import { ACCOUNT_COMMANDS } from '#scripts/examhall/account-commands.ts';
import { openProgress } from '#scripts/start/progress.ts';
import { testConfig } from '#testing/actors/test-kernel.ts';
import { callExamhall, runExamhall } from '#testing/processes/run-examhall.ts';
import { storeSession, storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { codeOf } from './examhall.ts';

const mongo = await openTestMongo(t);
const COSTS = { passwordCost: 4, tokenCost: 4, concurrency: 2 };
const hasher = openHasher(COSTS);
const WHY = ['--reason', 'requested by the school'];

const ENV = { AUTH_BCRYPT_COST: '4', AUTH_DEFAULT_ORGANIZATION_ID: 'truong-1' };
const run = (args: readonly string[]) => callExamhall(mongo, ['account', ...args], { env: ENV });
/** Runs an account command as a process. */
const start = (args: readonly string[], typed = '') => runExamhall(mongo, ['account', ...args], { typed, env: ENV });
/** Runs an account command on the database of this process, without the command line. */
async function call(args: readonly string[], typed: string | Buffer = '') {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { reason: { type: 'string' }, yes: { type: 'boolean' } },
  });
  const [name, ...words] = positionals;
  const said: string[] = [];
  const command = ACCOUNT_COMMANDS[`account ${name}`];
  if (command === undefined) throw new Error(`no command ${name}`);
  const print = (line: string) => void said.push(line);
  const operator = {
    mongo,
    now: Date.now,
    name: 'an',
    say: print,
    note: print,
    fail: print,
    logAct: () => undefined,
    endStreams: async () => undefined,
    interrupted: new AbortController().signal,
    openProgress: () => openProgress(new PassThrough()),
  };
  const input = Readable.from([Buffer.from(typed)]);
  const rest = { input, settings: testConfig().auth, output: new PassThrough(), commandAttempts: 5, redisUrl: '' };
  const code = await codeOf(print, () => command.run({ ...operator, ...rest }, words, values));
  return { code, said: said.join('\n') };
}

const audit = (subject: string) => mongo.db.collection(OPERATOR_AUDIT).find({ subject }).sort({ at: 1 }).toArray();
const liveOf = async (accountId: string) => (await sessions(mongo).find({ accountId, endedAt: null }).toArray()).length;

t.test('examhall account shows an account, grants ADMIN and changes its status, with an audit row each', async (t) => {
  const { account } = await storeSignedIn(mongo, { phone: '+84900000007' });
  await recordFailure(mongo, throttleKey(account.email));
  const typed = ` ${account.email.toUpperCase()} `;

  const admin = await run(['make-admin', typed, ...WHY, '--operator', 'binh']);
  t.equal(admin.code, 0, admin.said);
  t.equal(admin.out, `granted ADMIN to ${account.email}; effective with its next access token\n`);
  t.match(await findAccount(mongo, account._id), { role: 'ADMIN' });
  t.match(await run(['make-admin', typed, ...WHY]), { code: 1, out: '', err: /^error: \S+ is already an ADMIN\n$/ });

  const shown = await start(['show', typed]);
  t.equal(shown.code, 0, shown.said);
  t.match(JSON.parse(shown.out), {
    id: account._id,
    role: 'ADMIN',
    status: 'ACTIVE',
    phone: '+84900000007',
    sessions: [{ userAgent: 'tap' }],
    throttle: { failures: 1 },
    securityEvents: [{ type: 'ROLE_CHANGED' }],
    passwordScheme: 'bcrypt-sha256',
  });
  t.notMatch(shown.said, account.password.hash, 'no hash is shown');

  const printed = JSON.parse(shown.err);
  t.match(printed, { name: 'examhall', msg: 'operator act', action: 'account.show', subject: account._id, seq: 2 });
  t.equal(printed.hash, (await audit(account._id))[1]?.hash, 'the log line holds the hash of the row');

  await storeSession(mongo, account);
  t.match(await run(['status', typed, 'SUSPENDED', ...WHY]), { code: 0, said: /SUSPENDED; ended 0 sessions/ });
  t.equal(await liveOf(account._id), 2, 'a suspended account keeps its sessions');
  t.match(await run(['status', typed, 'SUSPENDED', ...WHY]), { code: 1, said: /already SUSPENDED/ });
  t.match(await run(['status', typed, 'ACTIVE', ...WHY]), { code: 0 });
  t.match(await run(['status', typed, 'DELETED', ...WHY]), { code: 0, said: /DELETED; ended 2 sessions/ });
  t.equal(await liveOf(account._id), 0);
  t.match(await run(['status', typed, 'ACTIVE', ...WHY]), { code: 1, err: /^error: .* deletion cannot be undone/ });
  const lines = await audit(account._id);
  t.equal(lines.length, 5);
  t.match(lines, [
    { action: 'account.make-admin', operator: 'binh', reason: 'requested by the school' },
    { action: 'account.show', operator: 'an', reason: 'none given' },
    { action: 'account.status', operator: 'an', detail: { from: 'ACTIVE', to: 'SUSPENDED', ended: 0 } },
    { detail: { to: 'ACTIVE' } },
    { detail: { to: 'DELETED' } },
  ]);
  t.match(
    (await callExamhall(mongo, ['audit'])).said,
    new RegExp(`an +account\\.status +- +${account._id} +requested by`),
  );
});

t.test('examhall account set-password reads standard input, applies the policy and ends all sessions', async (t) => {
  const { account } = await storeSignedIn(mongo);
  await recordFailure(mongo, throttleKey(account.email));
  const args = ['set-password', account.email, ...WHY];
  for (const [typed, says] of [
    ['password\n', /commonly used/],
    ['short', /at least 8/],
    [`${account.email}\n`, /e-mail address/],
    ['', /at least 8/],
    ['one line\nand another', /one line/],
    [Buffer.from([0xff, 0xfe, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46]), /UTF-8/],
  ] as const) {
    t.match(await call(args, typed), { code: 1, said: says });
  }
  t.equal(await liveOf(account._id), 1, 'a refused password changes nothing');
  t.match(await findAccount(mongo, account._id), { password: account.password });
  t.strictSame(await audit(account._id), []);

  const done = await start(args, 'ngựa đúng pin ghim\n');
  t.equal(done.code, 0, done.said);
  t.notMatch(done.said, 'ngựa');
  const stored = await findAccount(mongo, account._id);
  t.equal(await hasher.verifyPassword('ngựa đúng pin ghim', stored?.password ?? null), true);
  t.equal(await liveOf(account._id), 0);
  t.equal(await throttles(mongo).findOne({ _id: throttleKey(account.email) }), null);
  t.match(await audit(account._id), [{ action: 'account.set-password', detail: { ended: 1 } }]);
});

t.test('examhall account unlock clears failed login attempts, and end-sessions ends all sessions', async (t) => {
  const { account } = await storeSignedIn(mongo);
  t.match(await run(['unlock', 'nobody@school.vn', ...WHY]), { code: 1, err: /^error: .* no failed login attempts/ });
  await recordFailure(mongo, throttleKey(account.email));
  t.match(await run(['unlock', account.email.toUpperCase(), ...WHY]), { code: 0, said: /ended its device tokens/ });
  t.equal(await throttles(mongo).findOne({ _id: throttleKey(account.email) }), null);
  t.match(await run(['end-sessions', account.email, ...WHY]), { code: 0, said: /1 session/ });
  t.equal(await liveOf(account._id), 0);
  t.equal((await audit(account._id)).length, 2);
});

t.test('examhall account import stores accounts with their hashes and skips those already present', async (t) => {
  const file = path.join(t.testdir({}), 'school.jsonl');
  const known = await storeSignedIn(mongo, { email: 'known@school.vn', legacyId: 'L-0' });
  const { hash } = await openHasher({ ...COSTS }).hashPassword('x');
  const line = (n: number, more: object = {}) =>
    JSON.stringify({
      email: `Hs${n}@school.vn`,
      fullName: `Học sinh ${n}`,
      role: 'STUDENT',
      passwordHash: hash,
      ...more,
    });
  const write = (...lines: string[]) => writeFile(file, `${lines.join('\r\n')}\r\n\r\n`);
  const load = (...flags: string[]) => run(['import', file, ...WHY, ...flags]);

  await write(line(1), '{', line(2, { role: 'KING', phone: 'x' }), line(1, { legacyId: 'a b' }), line(1));
  const faulty = await load('--yes');
  t.equal(faulty.code, 1);
  for (const told of [
    /^error: line 2: is not/m,
    /^error: line 3: role/m,
    /^error: line 3: phone/m,
    /^error: line 4: legacyId/m,
    /^error: line 5: duplicate email \(also on line 1\)/m,
  ]) {
    t.match(faulty.err, told);
  }
  t.equal(faulty.out, '');
  t.match(faulty.err, /^error: 5 errors in 5 lines; nothing was imported/m);
  t.notMatch(faulty.said, hash);
  t.equal(await findAccountByEmail(mongo, 'hs1@school.vn'), null);
  t.strictSame(await audit('school.jsonl'), []);

  const good = Array.from({ length: 60 }, (_, n) => line(n, { legacyId: `L-${n + 1}`, phone: `09123456${10 + n}` }));
  await write(...good);
  t.match(await load(), { code: 0, said: /^dry run: 60 accounts would be imported; pass --yes/ });
  t.equal(await findAccountByEmail(mongo, 'hs1@school.vn'), null, 'without --yes nothing happens');
  t.match(await load('--yes'), { code: 0, said: /60 imported, 0 already present, 0 refused/ });
  t.match(await findAccountByEmail(mongo, 'hs1@school.vn'), {
    fullName: 'Học sinh 1',
    legacyId: 'L-2',
    hasLegacyId: true,
    phone: '+84912345611',
    status: 'ACTIVE',
    accountCode: /^ACC-/,
    password: { scheme: 'bcrypt', hash },
    defaultOrganizationId: 'truong-1',
    memberships: [{ organizationId: 'truong-1', role: 'STUDENT', status: 'ACTIVE' }],
  });

  await write(
    ...good,
    line(90, { email: 'known@school.vn' }),
    line(91, { legacyId: 'L-0' }),
    line(92, { legacyId: 'L-92' }),
  );
  const again = await load('--yes');
  t.match(again, { code: 1, out: /1 imported, 60 already present, 2 refused/ });
  t.match(again.err, /^error: line 61: email is taken/m);
  t.match(again.err, /^error: line 62: legacy id is taken/m);
  t.match(
    await findAccount(mongo, known.account._id),
    { password: known.account.password },
    'the account that has the e-mail is unchanged',
  );
  t.equal((await accounts(mongo).find({ 'password.scheme': 'bcrypt' }).toArray()).length, 61);
  t.match(await audit('school.jsonl'), [
    { action: 'account.import', detail: { end: 'begun', lines: 60 } },
    { detail: { end: 'done', imported: 60, refused: 0 } },
    { detail: { end: 'begun', lines: 63 } },
    { detail: { end: 'done', imported: 1, thereAlready: 60, refused: 2 } },
  ]);
  t.match(await start(['import', `${file}.gone`, ...WHY]), { code: 1, err: /^error: ENOENT[^\n]*\n$/ });
});

t.test(
  'examhall account import makes an ADMIN only on request, with a security event, and states roles and SHA-256',
  async (t) => {
    const file = path.join(t.testdir({}), 'staff.jsonl');
    const { hash } = await openHasher({ ...COSTS }).hashPassword('x');
    const line = (name: string, role: string) =>
      JSON.stringify({ email: `${name}@staff.vn`, fullName: name, role, passwordHash: hash });
    const text = [line('an', 'STUDENT'), line('boss', 'ADMIN'), line('binh', 'STUDENT')].join('\n');
    await writeFile(file, text);
    const load = (...flags: string[]) => run(['import', file, ...WHY, ...flags]);

    for (const flags of [[], ['--yes']]) {
      const refused = await load(...flags);
      t.match(refused, { code: 1, out: '', err: /^error: line 2: role ADMIN requires --allow-admin/ });
    }
    t.equal(await findAccountByEmail(mongo, 'boss@staff.vn'), null);
    t.equal(await findAccountByEmail(mongo, 'an@staff.vn'), null, 'the file is refused as a whole');
    t.strictSame(await audit('staff.jsonl'), []);

    const sha256 = createHash('sha256').update(text).digest('hex');
    const dry = await load('--allow-admin');
    t.match(dry, { code: 0, out: /^dry run: 3 accounts would be imported; pass --yes to import\n/ });
    t.match(dry.out, `by role: 2 STUDENT, 1 ADMIN\nSHA-256 of the file: ${sha256}\n`);
    t.match(await load('--allow-admin', '--yes'), {
      code: 0,
      out: /^3 imported, 0 already present, 0 refused\nby role: 2 STUDENT, 1 ADMIN\n/,
    });
    const boss = await findAccountByEmail(mongo, 'boss@staff.vn');
    t.match(boss, { role: 'ADMIN', password: { scheme: 'bcrypt', hash } });
    const events = await newestSecurityEvents(mongo, boss?._id ?? '', 5);
    t.match(events, [{ type: 'ROLE_CHANGED', sessionId: null, metadata: { from: null, to: 'ADMIN' } }]);
    t.equal(events.length, 1);
    const detail = { roles: '2 STUDENT, 1 ADMIN', sha256 };
    t.match(await audit('staff.jsonl'), [
      { detail: { end: 'begun', ...detail } },
      { detail: { end: 'done', ...detail } },
    ]);

    t.match(await load('--allow-admin', '--yes'), { code: 0, out: /^0 imported, 3 already present/ });
    t.equal((await newestSecurityEvents(mongo, boss?._id ?? '', 5)).length, 1, 'a repeat writes no second event');
  },
);

t.test('examhall account refuses invalid arguments, names the fault and changes nothing', async (t) => {
  const { account } = await storeSignedIn(mongo);
  for (const [args, code, says] of [
    [['make-admin', account.email], 2, /--reason/],
    [['make-admin', 'nobody@school.vn', ...WHY], 1, /no account with e-mail nobody@school.vn/],
    [['status', account.email, 'GONE', ...WHY], 2, /STATUS must be one of ACTIVE, /],
    [['unlock', 'nobody', ...WHY], 2, /must be an e-mail address/],
    [['unlock', account.email], 2, /--reason/],
    [['import', 'x.jsonl', '--yes'], 2, /--reason/],
  ] as const) {
    const told = await call(args);
    t.equal(told.code, code, args.join(' '));
    t.match(told.said, says);
  }
  for (const [args, says] of [
    [['make-admin', ...WHY], /missing required argument 'email'/],
    [['status', account.email, ...WHY], /missing required argument 'status'/],
    [['import', ...WHY], /missing required argument 'file'/],
    [['raise'], /unknown command 'raise'/],
  ] as const) {
    const told = await run([...args]);
    t.match(told, { code: 2, out: '', err: says }, args.join(' '));
  }
  const inTheOpen = ['set-password', account.email, ...WHY, '--password', 'ngựa đúng pin ghim'];
  t.match(await run(inTheOpen), { code: 2, said: /password/ });
  t.strictSame(await audit(account._id), []);
  t.match(await findAccount(mongo, account._id), { role: 'STUDENT', status: 'ACTIVE' });
});
