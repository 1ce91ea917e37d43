import type { TokenUsage } from './model-task.ts';

/** What can be suggested of a question. */
export const CLASSIFY_FIELDS = ['subject', 'gradeLevel', 'topic', 'difficulty', 'cognitiveLevel', 'tags'] as const;
export type ClassifyField = (typeof CLASSIFY_FIELDS)[number];

/** AUTO: what is sure enough counts as accepted. Nothing is ever written into the bank, by either. */
export const CLASSIFY_MODES = ['SUGGEST', 'AUTO'] as const;
export type ClassifyMode = (typeof CLASSIFY_MODES)[number];

export const JOB_STATUSES = ['PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** What a model says of one field; tags are a list, all else text. */
export interface Suggestion {
  value: unknown;
  /** 0-1. */
  confidence: number;
}

export interface ClassifiedItem {
  questionId: string;
  suggestions: Partial<Record<ClassifyField, Suggestion>>;
  accepted: boolean;
}

/** Why one question has no suggestions. */
export interface QuestionError {
  questionId: string;
  code: string;
  message: string;
}

/** How one batch of one round ended: each of its questions is in one of the two lists, in their order. */
export interface BatchOutcome {
  items: ClassifiedItem[];
  errors: QuestionError[];
  /** null: the model was not asked, or gave nothing usable. */
  usage: TokenUsage | null;
}
