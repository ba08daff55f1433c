/** What forms of the administration share: they check their fields before the server does. */
import { useState } from "react";

import { type Afterwards, type Task, useTask } from "./api.js";
import { atField, fieldProblem } from "./rules.js";

interface CheckedForm<Field extends string> {
  readonly task: Task<readonly []>;
  /** For {@link Form}. */
  readonly form: {
    readonly busy: boolean;
    readonly error: unknown;
    readonly fields: readonly Field[];
    readonly onSubmit: () => void;
  };
  /** What to say at a field: what is wrong with it, once somebody has tried, then what the server said of it. */
  readonly problem: (field: Field) => string | null;
}

/**
 * @param problems of the fields, by the server's names of them; null: none
 * @param work sends the form
 */
export function useCheckedForm<Field extends string>(
  problems: Readonly<Record<Field, string | null>>,
  work: () => Promise<Afterwards>,
): CheckedForm<Field> {
  const [tried, setTried] = useState(false);
  const task = useTask(async () => {
    const afterwards = await work();
    setTried(false);
    return afterwards;
  });
  const fields = Object.keys(problems) as Field[];
  return {
    task,
    form: {
      busy: task.busy,
      error: task.error,
      fields,
      onSubmit: () => {
        setTried(true);
        if (fields.every((field) => problems[field] === null)) {
          task.run();
        }
      },
    },
    problem: (field) => atField((tried ? problems[field] : null) ?? fieldProblem(task.error, field)),
  };
}
