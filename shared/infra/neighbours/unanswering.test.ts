import t from 'tap';
import { readConfig } from '#infra/config/config.ts';
import { watchAnswers } from './unanswering.ts';

const given = readConfig(
  {
    MONGODB_URL: 'mongodb://127.0.0.1/',
    PROFILE_SERVICE_URL: 'http://profile',
    QUESTION_BANK_SERVICE_URL: 'http://bank',
  },
  'cluster',
);

t.test('a service is unanswering from its first failed call until it answers with any status below 500', async (t) => {
  let now = 1_000;
  const { config, unanswering } = watchAnswers(given, () => now);
  const { profile, questionBank } = config.neighbours;
  profile?.called?.('ok', 1);
  questionBank?.called?.('failed', 1);
  t.strictSame(unanswering(), [{ name: 'question_bank', since: new Date(1_000), lastAt: new Date(1_000) }]);
  now = 2_000;
  questionBank?.called?.('unanswered', 1);
  profile?.called?.('unanswered', 1);
  t.strictSame(unanswering(), [
    { name: 'profile', since: new Date(2_000), lastAt: new Date(2_000) },
    { name: 'question_bank', since: new Date(1_000), lastAt: new Date(2_000) },
  ]);
  profile?.called?.('refused', 1);
  questionBank?.called?.('ok', 1);
  t.strictSame(unanswering(), []);
});

t.test('an observer that the configuration has already still receives each call', async (t) => {
  const heard: string[] = [];
  const first = watchAnswers(given, () => 1);
  const { profile } = first.config.neighbours;
  if (profile === null) throw new Error('the service is configured');
  const observed = { ...first.config, neighbours: { ...first.config.neighbours, profile: { ...profile } } };
  observed.neighbours.profile.called = (outcome) => void heard.push(outcome);
  const second = watchAnswers(observed, () => 2);
  second.config.neighbours.profile?.called?.('failed', 1);
  t.strictSame(heard, ['failed']);
  t.match(second.unanswering(), [{ name: 'profile' }]);
});
