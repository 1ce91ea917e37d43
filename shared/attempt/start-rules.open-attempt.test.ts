import t from 'tap';
import { refuseOpenAttempt, type StartPlan } from './start-rules.ts';

const open = { _id: 'attempt-1', accessLinkId: 'link-1' };
const byAssignment: Pick<StartPlan, 'link'> = { link: null };
const byLink = (id: string): Pick<StartPlan, 'link'> => ({ link: { id, mode: 'GUEST_ALLOWED' } });

t.test('a start gets the open attempt by assignment and through its own link', async (t) => {
  t.equal(refuseOpenAttempt(open, byAssignment), null);
  t.equal(refuseOpenAttempt(open, byLink('link-1')), null);
});

t.test('a start through another link is refused while an attempt is open', async (t) => {
  const refused = { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: 'attempt-1' } };
  t.strictSame(refuseOpenAttempt(open, byLink('link-2')), refused);
  t.strictSame(refuseOpenAttempt({ ...open, accessLinkId: null }, byLink('link-1')), refused);
});
