import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { FILED } from '#infra/config/environment.ts';

const ROOT = path.resolve(import.meta.dirname, '..');
const POLICY = readFileSync(path.join(ROOT, 'SECURITY.md'), 'utf8');

t.test('SECURITY.md names test files that exist as the evidence of each promise', async (t) => {
  const [, section = ''] = POLICY.split('\n### What holds\n');
  const [list = ''] = section.split('\n### ');
  const promises = list.split(/^- /m).slice(1);
  t.ok(promises.length > 15);
  for (const promise of promises) {
    const files = [...promise.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, file]) => file ?? '');
    t.ok(files.length > 0, promise);
    for (const file of files) t.ok(existsSync(path.join(ROOT, file)), file);
  }
});

t.test('SECURITY.md describes the leak and the rotation of every secret of the configuration', async (t) => {
  const [, section = ''] = POLICY.split('\n### Leaked secrets\n');
  const [secrets = ''] = section.split('\n### ');
  for (const name of [...FILED, 'MONGODB_URL', 'REDIS_URL']) {
    const current = name.replace(/^NOTIFICATION_TOKEN_.*$/, 'NOTIFICATION_TOKEN_…').replace(/_PREVIOUS$/, '');
    t.match(secrets, `\`${current}\``, name);
  }
});

t.test('SECURITY.md rates every chapter of ASVS 5', async (t) => {
  const rows = [...POLICY.matchAll(/^\| V(\d+) [^|]+\| (\S[^|]*?) +\| \S/gm)];
  t.strictSame(
    rows.map(([, chapter]) => Number(chapter)),
    Array.from({ length: 17 }, (_, at) => at + 1),
  );
  for (const [row, , state] of rows) t.match(state, /^(holds|gap|not applicable)$/, row);
});
