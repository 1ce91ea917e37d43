import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { subjectFaults } from '#scripts/prose/subject.ts';

/**
 * `node scripts/check-commits.ts FILE` checks the message in a file, as git's `commit-msg` hook. `… --range A..B` checks the commits of a
 * range, in CI. Prints each fault and exits with 1 if there is one.
 */
const [target = '', range = ''] = process.argv.slice(2);
const messages = target === '--range' ? subjectsOf(range) : [readFileSync(target, 'utf8')];
for (const message of messages) {
  for (const fault of subjectFaults(message)) {
    console.error(`error: ${message.split('\n')[0]}\n    ${fault}`);
    process.exitCode = 1;
  }
}

function subjectsOf(commits: string): string[] {
  const log = execFileSync('git', ['log', '--no-merges', '--format=%s', commits], { encoding: 'utf8' });
  return log.split('\n').filter((subject) => subject !== '');
}
