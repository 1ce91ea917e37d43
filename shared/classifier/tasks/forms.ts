import { classifyTask, readClassification } from './classify.ts';
import type { TaskPayloads, TaskResults } from './envelope.ts';
import { explainTask, gradeTask, readGrade, readSolution } from './explain-and-grade.ts';
import { generateTask, readGeneration } from './generate.ts';
import type { ModelTask, TaskKind } from './task.ts';

/** How a payload becomes a task for a model, and the model's answer the result. */
export interface TaskForm<Kind extends TaskKind> {
  task(payload: TaskPayloads[Kind]): ModelTask;
  /** Reads an answer that has passed the task's schema. Returns null if it cannot be used. */
  read(payload: TaskPayloads[Kind], json: unknown): TaskResults[Kind] | null;
}

/** The form of each kind of task. */
export const TASK_FORMS: Readonly<{ [Kind in TaskKind]: TaskForm<Kind> }> = {
  classify: { task: classifyTask, read: readClassification },
  generate: { task: generateTask, read: readGeneration },
  explain: { task: explainTask, read: readSolution },
  grade: { task: gradeTask, read: readGrade },
};
