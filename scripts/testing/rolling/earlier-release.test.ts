import { execFileSync } from 'node:child_process';
import { mkdirSync, readlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { BASELINE } from '#infra/mongo/schema/migrate.ts';
import { chooseRelease, unpackRelease } from './earlier-release.ts';

const MIGRATIONS = 'shared/infra/mongo/schema/migrate.ts';

/** Makes a repository; each commit has a schema of this version, and the baseline from that version on. */
function repository(folder: string, ...versions: number[]) {
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.org', '-c', 'init.defaultBranch=main'];
  const git = (...args: string[]) =>
    execFileSync('git', [...identity, ...args], { cwd: folder, encoding: 'utf8', stdio: 'pipe' }).trim();
  git('init', '--quiet');
  mkdirSync(path.join(folder, path.dirname(MIGRATIONS)), { recursive: true });
  const commits = versions.map((version, n) => {
    const lines = Array.from({ length: version }, (_, index) => `  { version: ${index + 1}, name: 'x' },`);
    if (version >= BASELINE) lines.unshift(`export const BASELINE = ${BASELINE};`);
    writeFileSync(path.join(folder, MIGRATIONS), lines.join('\n'));
    writeFileSync(path.join(folder, 'number'), String(n));
    git('add', '.');
    git('commit', '--quiet', '-m', `commit ${n}`);
    return git('rev-parse', 'HEAD');
  });
  return { folder, git, commits };
}

t.test('without a tag, the last commit of an older schema is the earlier release', (t) => {
  const { folder, commits } = repository(t.testdir({}), BASELINE, BASELINE, BASELINE + 1, BASELINE + 1);
  t.match(chooseRelease(folder, BASELINE + 1), { commit: commits[1] });
  t.end();
});

t.test('as long as the baseline is the present schema, its first commit is the earlier release', (t) => {
  const { folder, commits } = repository(t.testdir({}), 1, BASELINE - 1, BASELINE, BASELINE);
  t.match(chooseRelease(folder, BASELINE), { commit: commits[2] });
  t.end();
});

t.test('the last release tag before HEAD goes first', (t) => {
  const { folder, git, commits } = repository(t.testdir({}), 1, BASELINE, BASELINE, BASELINE);
  git('tag', 'v1.0.0', commits[1] ?? '');
  git('tag', 'v1.1.0', 'HEAD');
  t.match(chooseRelease(folder), { commit: commits[1], name: 'v1.0.0' });
  t.end();
});

t.test('a cut history is named, with the command that completes it', (t) => {
  const { folder } = repository(t.testdir({ clone: {} }), BASELINE, BASELINE + 1);
  const clone = path.join(folder, 'clone');
  execFileSync('git', ['clone', '--quiet', '--depth=1', `file://${folder}`, clone], { stdio: 'pipe' });
  t.throws(() => chooseRelease(clone, BASELINE + 1), /shallow clone.*git fetch --unshallow/);
  t.end();
});

t.test('a history without a baseline is named as such', (t) => {
  const { folder } = repository(t.testdir({}), BASELINE - 1);
  t.throws(() => chooseRelease(folder), /no release tag and no commit of the baseline/);
  t.end();
});

t.test('a release is unpacked beside the packages that it shares', (t) => {
  const { folder, git, commits } = repository(t.testdir({ unpacked: {} }), 1);
  const lock = {
    packages: { 'node_modules/a': { version: '1.0.0' }, 'node_modules/b': { version: '1.0.0', dev: true } },
  };
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ dependencies: { a: '1.0.0' } }));
  writeFileSync(path.join(folder, 'package-lock.json'), JSON.stringify(lock));
  git('add', 'package.json', 'package-lock.json');
  git('commit', '--quiet', '-m', 'lock');
  // A package for development may differ.
  const newer = { packages: { ...lock.packages, 'node_modules/b': { version: '2.0.0', dev: true } } };
  writeFileSync(path.join(folder, 'package-lock.json'), JSON.stringify(newer));
  const release = { commit: git('rev-parse', 'HEAD'), name: 'x' };
  const unpacked = path.join(folder, 'unpacked', 'earlier');
  unpackRelease(folder, release, unpacked);
  t.equal(readlinkSync(path.join(unpacked, 'node_modules')), path.join(folder, 'node_modules'));
  t.equal(commits.length, 1);
  t.end();
});
