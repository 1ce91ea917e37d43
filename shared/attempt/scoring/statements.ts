import type { Question } from '#shared/attempt/question.ts';
import { ladderShare } from './ladder.ts';
import { partialShare } from './partial.ts';
import { FULL, NOTHING, type Share } from './points.ts';

/** TRUE_FALSE_GROUP under each of its modes. A blank or omitted judgement is neither right nor wrong. */
export function statementsShare(
  question: Question,
  ruleMax: number,
  judgements: readonly { statementId: string; value: boolean | null }[],
): Share {
  const { answerKey, scoringRule } = question;
  const key = new Map((answerKey.statements ?? []).map(({ statementId, value }) => [statementId, value]));
  let right = 0;
  let wrong = 0;
  for (const { statementId, value } of judgements) {
    if (value === null) continue;
    if (key.get(statementId) === value) right += 1;
    else wrong += 1;
  }
  if (scoringRule.mode === 'EXACT') return right === key.size ? FULL : NOTHING;
  if (scoringRule.mode === 'PARTIAL') return partialShare(scoringRule, ruleMax, { right, wrong, key: key.size });
  return ladderShare(scoringRule, { right, statements: key.size });
}
