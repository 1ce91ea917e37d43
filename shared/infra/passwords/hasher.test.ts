import * as bcrypt from 'bcrypt';
import t from 'tap';
import type { StoredPassword } from '#shared/auth/account.ts';
import { commonPasswords } from './common-passwords.ts';
import { HasherBusy } from './fair-queue.ts';
import { type BcryptEngine, type HasherOptions, openHasher } from './hasher.ts';

const OPTIONS: HasherOptions = { passwordCost: 5, tokenCost: 4, concurrency: 2 };

/** Returns the real engine. It records the work of each comparison, as a power of two. */
function countedEngine(): BcryptEngine & { compares: number[] } {
  const compares: number[] = [];
  return {
    compares,
    hash: bcrypt.hash,
    compare(text, hash) {
      compares.push(2 ** Number(hash.slice(4, 6)));
      return bcrypt.compare(text, hash);
    },
  };
}

/** Returns an engine whose comparisons end when the test ends them. */
function heldEngine() {
  const held: { text: string; end: (result: boolean) => void }[] = [];
  const engine: BcryptEngine = {
    hash: bcrypt.hash,
    compare: (text) => new Promise((end) => void held.push({ text, end })),
  };
  return { engine, held };
}

/** Limits of a line with so many places. */
const lineOf = (places: number) => ({ total: places, ofAddress: places, ofAccount: places });

const plain = (hash: string): StoredPassword => ({ scheme: 'bcrypt', hash });

t.test('a password matches only its own hash', async (t) => {
  const hasher = openHasher(OPTIONS);
  const stored = await hasher.hashPassword('a strange horse');
  t.equal(stored.scheme, 'bcrypt-sha256');
  t.match(stored.hash, /^\$2b\$05\$/);
  t.equal(await hasher.verifyPassword('a strange horse', stored), true);
  t.equal(await hasher.verifyPassword('a strange hors', stored), false);
  t.notSame(await hasher.hashPassword('a strange horse'), stored, 'salted');
});

t.test('every byte of a password counts, also after 72 bytes and after a NUL', async (t) => {
  const hasher = openHasher(OPTIONS);
  const long = 'ễ'.repeat(40);
  t.equal(await hasher.verifyPassword(`${long}2`, await hasher.hashPassword(`${long}1`)), false);
  const nul = await hasher.hashPassword('before\0after');
  t.equal(await hasher.verifyPassword('before\0after', nul), true);
  t.equal(await hasher.verifyPassword('before\0other', nul), false);
  t.equal(await hasher.verifyPassword('before', nul), false);
});

t.test('a password matches in every Unicode normalization form', async (t) => {
  const hasher = openHasher(OPTIONS);
  const stored = await hasher.hashPassword('mật khẩu'.normalize('NFC'));
  t.equal(await hasher.verifyPassword('mật khẩu'.normalize('NFD'), stored), true);
});

t.test('a password with a run of combining marks matches nothing, for the work of any wrong one', async (t) => {
  const engine = countedEngine();
  const hasher = openHasher(OPTIONS, engine);
  const marked = `a${'\u0301'.repeat(31)}`;
  for (const stored of [await hasher.hashPassword(marked), plain(bcrypt.hashSync(marked, 5))]) {
    engine.compares.length = 0;
    t.equal(await hasher.verifyPassword(marked, stored), false);
    t.strictSame(engine.compares, [32]);
  }
});

t.test('two refresh tokens with the same first 72 bytes do not match each other', async (t) => {
  const hasher = openHasher(OPTIONS);
  const prefix = `eyJhbGciOiJIUzI1NiIsInR5cCI6InJ0K2p3dCJ9.${'a'.repeat(40)}`;
  t.ok(Buffer.byteLength(prefix) >= 72);
  const hash = await hasher.hashToken(`${prefix}.one`);
  t.match(hash, /^\$2b\$04\$/);
  t.equal(await hasher.verifyToken(`${prefix}.one`, hash), true);
  t.equal(await hasher.verifyToken(`${prefix}.two`, hash), false);
});

t.test('a wrong password takes the same work with and without an account', async (t) => {
  const engine = countedEngine();
  const hasher = openHasher(OPTIONS, engine);
  const work = async (stored: StoredPassword | null, text = 'wrong') => {
    engine.compares.length = 0;
    t.equal(await hasher.verifyPassword(text, stored), false);
    return engine.compares;
  };
  const ours = await hasher.hashPassword('right');
  t.strictSame(await work(ours), [32]);
  t.strictSame(await work(null), [32], 'the same comparison, not a delay');
  t.strictSame(await work(null, ''), [32]);
  t.strictSame(await work(null, 'x'.repeat(10_000)), [32]);
  t.strictSame(await work(plain('what an import left')), [32]);
  t.strictSame(await work(plain(`$2b$31$${'a'.repeat(53)}`)), [32], 'a hash that would take two days is not compared');
  const cheaper = openHasher({ ...OPTIONS, passwordCost: 7 }, engine);
  engine.compares.length = 0;
  t.equal(await cheaper.verifyPassword('wrong', ours), false);
  t.equal(
    engine.compares.reduce((sum, units) => sum + units),
    128,
    'the missing work of a cheaper hash is added',
  );
  engine.compares.length = 0;
  t.equal(await cheaper.verifyPassword('right', ours), true);
  t.strictSame(engine.compares, [32], 'but not for the right password');
});

t.test('imported bcrypt hashes match under every name and are outdated', async (t) => {
  const hasher = openHasher(OPTIONS);
  const hash = await bcrypt.hash('from elsewhere', 5);
  for (const name of ['$2a$', '$2b$', '$2y$']) {
    const stored = plain(hash.replace('$2b$', name));
    t.equal(await hasher.verifyPassword('from elsewhere', stored), true, name);
    t.equal(await hasher.verifyPassword('From elsewhere', stored), false, name);
    t.equal(hasher.isOutdated(stored), true, 'an imported hash is outdated even at the right cost');
  }
  const ours = await hasher.hashPassword('from elsewhere');
  t.equal(hasher.isOutdated(ours), false);
  t.equal(openHasher({ ...OPTIONS, passwordCost: 6 }).isOutdated(ours), true);
  t.equal(openHasher({ ...OPTIONS, passwordCost: 4 }).isOutdated(ours), true);
});

t.test('a full hash queue refuses further work at once, and accepts work again once it has room', async (t) => {
  const { engine, held } = heldEngine();
  const hasher = openHasher({ ...OPTIONS, concurrency: 2, lines: { registration: lineOf(3) } }, engine);
  const running = Array.from({ length: 5 }, (_, index) => hasher.verifyPassword(`${index}`, null));
  await t.rejects(hasher.verifyPassword('one too many', null), HasherBusy);
  await t.rejects(hasher.hashPassword('one too many'), HasherBusy);
  await new Promise(setImmediate);
  t.equal(held.length, 2, 'two at a time');
  const token = hasher.verifyToken('token', 'hash');
  await new Promise(setImmediate);
  t.equal(held.length, 3, 'a refresh does not wait behind logins');
  held[2]?.end(true);
  t.equal(await token, true);
  held[0]?.end(false);
  await running[0];
  const next = hasher.verifyPassword('in the free place', null);
  for (let ended = 1; ended < 7; ended += 1) {
    while (held[ended] === undefined) await new Promise(setImmediate);
    held[ended]?.end(false);
  }
  t.strictSame(await Promise.all([...running, next]), [false, false, false, false, false, false]);
});

t.test('a hash that fails leaves its place in the queue', async (t) => {
  const engine: BcryptEngine = { hash: () => Promise.reject(new Error('no memory')), compare: bcrypt.compare };
  const hasher = openHasher({ ...OPTIONS, concurrency: 1, lines: { registration: lineOf(0) } }, engine);
  await t.rejects(hasher.hashPassword('x'), /no memory/);
  await t.rejects(hasher.hashPassword('x'), /no memory/, 'not busy');
  t.equal(await hasher.verifyPassword('x', null), false);
});

t.test('hashing passwords does not block the event loop', async (t) => {
  const hasher = openHasher({ ...OPTIONS, passwordCost: 8 });
  let isDone = false;
  const hashing = hasher.hashPassword('x').then(async (stored) => {
    await hasher.verifyPassword('y', stored);
    await hasher.verifyPassword('y', null);
    isDone = true;
  });
  let turns = 0;
  while (!isDone) {
    await new Promise(setImmediate);
    turns += 1;
  }
  await hashing;
  t.ok(turns > 20, `${turns} turns; a synchronous hash leaves none`);
});

t.test('recognizes common passwords and no others', async (t) => {
  const isCommon = await commonPasswords();
  for (const text of ['password', '12345678', 'qwertyuiop', 'iloveyou', 'password1'])
    t.equal(isCommon(text), true, text);
  for (const text of ['', 'a strange horse', 'constructor', '__proto__']) t.equal(isCommon(text), false, text);
});

t.test('recognizes a short group of characters that is repeated', async (t) => {
  const isCommon = await commonPasswords();
  for (const text of ['123123123', 'abcabcabc', 'asdasdasd', '12341234', '1212121212', 'hahahaha'])
    t.equal(isCommon(text), true, text);
  for (const text of ['a1b2c-a1b2c', 'khoai khoai', '12341235', 'xyxyxyxz', '🐘🐎🐘🐎🐘🐎🐘🐎', 'ăâăâăâăâ'])
    t.equal(isCommon(text), false, text);
});

t.test('recognizes common Vietnamese words, with tone marks, blanks and a number', async (t) => {
  const isCommon = await commonPasswords();
  for (const text of ['matkhau123', 'anhyeuem123', 'vietnam123', 'hocsinh2026', 'student123', 'truonghoc1'])
    t.equal(isCommon(text), true, text);
  for (const text of [
    'mật khẩu 123',
    'mật khẩu'.normalize('NFD'),
    '123matkhau',
    'đăng nhập 2026',
    'anh yêu em',
    'giaovien',
  ])
    t.equal(isCommon(text), true, text);
  for (const text of [
    'sông hương 1802',
    'matkhau-cua-an',
    'hocsinh lop 10',
    'student1234567',
    '7654398',
    'đường về quê',
  ])
    t.equal(isCommon(text), false, text);
});
