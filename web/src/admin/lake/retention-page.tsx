/** How long rows are kept: the default of maintenance, and overrides by table and audience. */
import { useQuery } from "@tanstack/react-query";
import { CalendarClock } from "lucide-react";
import { type ReactElement, useState } from "react";

import { call } from "../../api/call.js";
import type { RetentionDefault, RetentionOverride } from "../../api/wire.js";
import { serverNow } from "../../api/server-clock.js";
import { useChangeSearch } from "../../app/search.js";
import { Checkbox, SelectField, TextField } from "../../ui/controls/controls.js";
import { formatTime } from "../../ui/format.js";
import { Banner, Skeleton } from "../../ui/states.js";
import { toast } from "../../ui/toast.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import { type Afterwards, useInvalidate, useList, useTask } from "../api.js";
import { useCheckedForm } from "../checked-form.js";
import { AdminError, ConfirmButton, ConfirmDialog, Form } from "../form.js";
import { Facts, ListPage, numberColumn, textColumn, timeColumn, timeText } from "../list-page.js";
import { textProblem, textRules } from "../rules.js";
import { AudienceField } from "./audience-field.js";
import { daysKept, defaultWords, keptWords, mostDays, removesAny, removesMore, views, viewWords } from "./retention.js";

const idOf = ({ view, audience }: RetentionOverride): string => `${view}/${audience ?? "*"}`;
const audienceWords = (audience: string | null): string => audience ?? "every other audience";

function columnsOf(rows: readonly RetentionOverride[]): readonly TableColumn[] {
  return [
    textColumn(rows, "view", "Rows", ({ view }) => viewWords(view), { width: 150 }),
    textColumn(rows, "audience", "Of", ({ audience }) => audienceWords(audience), { width: 200 }),
    numberColumn(rows, "days", "Kept", ({ days }) => days, keptWords),
    timeColumn(rows, "updated_at", "Changed", (row) => row.updated_at),
    textColumn(rows, "updated_by", "By", (row) => row.updated_by),
  ];
}

/** What every form needs to know to say what a change removes. */
interface Rules {
  readonly overrides: readonly RetentionOverride[];
  readonly standard: number | null;
  /** How many days something is kept at this moment, whoever has changed it meanwhile; null: for good, or not known. */
  readonly readDays: (view: string, audience: string | null) => Promise<number | null>;
}

export default function RetentionPage(): ReactElement {
  const query = useList<RetentionOverride>(["retention"], "api/retention");
  const standard = useQuery({
    queryKey: ["admin", "retention-default"],
    queryFn: ({ signal }) => call<RetentionDefault>("api/retention/default", { signal }),
    refetchInterval: ({ state }) => (state.data?.seen_at === null ? 2000 : false),
  });
  const rules: Rules = {
    overrides: query.data ?? [],
    standard: standard.data?.days ?? null,
    async readDays(view, audience) {
      const [overrides, byDefault] = await Promise.all([query.refetch(), standard.refetch()]);
      const isKnown = overrides.isSuccess && byDefault.isSuccess;
      return isKnown ? daysKept(overrides.data, byDefault.data.days, view, audience) : null;
    },
  };
  return (
    <ListPage
      noun="overrides"
      intro="Rows are removed some days after they were received, whatever their own time says. The most specific rule wins: that of a table and an audience, that of a table, the default. Administrators change rules, and the audit says who did."
      query={{
        ...query,
        refetch: () => Promise.all([query.refetch(), standard.refetch()]),
      }}
      idOf={idOf}
      columns={columnsOf}
      notes={
        standard.data === undefined ? (
          standard.error === null ? (
            <Skeleton rows={2} />
          ) : (
            <AdminError
              error={standard.error}
              title="The default could not be read"
              onRetry={() => void standard.refetch()}
            />
          )
        ) : (
          <Default standard={standard.data} rules={rules} />
        )
      }
      empty={{
        icon: <CalendarClock />,
        title: "The default holds for everything",
        text: "Add an override to keep the rows of a table, or those of an audience, for another time.",
      }}
      add={{
        label: "Add an override",
        title: "Add an override",
        form: (close) => <OverrideForm rules={rules} onCancel={close} />,
      }}
      panel={(row, close) => ({
        title: `${viewWords(row.view)} of ${audienceWords(row.audience)}`,
        body: <OverrideDetails key={idOf(row)} row={row} rules={rules} onRemoved={close} />,
      })}
    />
  );
}

function Default({ standard, rules }: { readonly standard: RetentionDefault; readonly rules: Rules }): ReactElement {
  const { held_until: heldUntil } = standard;
  return (
    <>
      {heldUntil === null || !removesAny(rules.overrides, rules.standard) ? null : (
        <Banner kind="warn" title="Nothing is removed for its age now">
          <p>
            The database is new, its clock has jumped, or nobody looked at it for over an hour. Retention goes on at{" "}
            {formatTime(Date.parse(heldUntil), { digits: 0 })}.
          </p>
        </Banner>
      )}
      <p>{defaultWords(standard)}</p>
      <dl className={css.figures} aria-label="Kept where an audience has no override of its own">
        {views.map(({ value, label }) => (
          <div key={value}>
            <dt>{label}</dt>
            <dd>
              {standard.seen_at === null ? "–" : keptWords(daysKept(rules.overrides, rules.standard, value, null))}
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function OverrideDetails({
  row,
  rules,
  onRemoved,
}: {
  readonly row: RetentionOverride;
  readonly rules: Rules;
  readonly onRemoved: () => void;
}): ReactElement {
  const invalidate = useInvalidate();
  const { view, audience } = row;
  const others = rules.overrides.filter((each) => idOf(each) !== idOf(row));
  const next = daysKept(others, rules.standard, view, audience);
  return (
    <>
      <p>{meaning(view, audience, row.days)}</p>
      <Facts facts={[["Changed", `${timeText(row.updated_at)} by ${row.updated_by}`]]} />
      <OverrideForm row={row} rules={rules} />
      <div className={css.actions}>
        <ConfirmButton
          label="Remove…"
          title="Remove this override?"
          confirm="Remove the override"
          done="The override is removed"
          onConfirm={async () => {
            await call("api/retention", {
              method: "DELETE",
              query: audience === null ? { view } : { view, audience },
            });
            await invalidate("retention");
            onRemoved();
          }}
        >
          <p>Without it: {meaning(view, audience, next ?? 0)}</p>
        </ConfirmButton>
      </div>
    </>
  );
}

/** What a rule does, in sentences. @param days 0: for good */
function meaning(view: string, audience: string | null, days: number): string {
  const what = `${viewWords(view)} of ${audience ?? "every audience without an override of its own"}`;
  return days === 0
    ? `${what} are kept for good.`
    : `${what} go ${keptWords(days)} after they were received. Maintenance looks every five minutes. An object goes when its last row is past; until then all its rows can be queried.`;
}

/** Of a new one unless `row` is given. */
function OverrideForm({
  row,
  rules,
  onCancel,
}: {
  readonly row?: RetentionOverride;
  readonly rules: Rules;
  readonly onCancel?: () => void;
}): ReactElement {
  const [view, setView] = useState(row?.view ?? "log_entries");
  const [audience, setAudience] = useState(row?.audience ?? "");
  // What was not typed is as the row has it now.
  const [typed, setTyped] = useState<{ readonly days?: string; readonly forGood?: boolean }>({});
  const days = typed.days ?? (row === undefined || row.days === 0 ? "30" : String(row.days));
  const forGood = typed.forGood ?? row?.days === 0;
  // What is saved when somebody confirms it; what the form says may be another thing by then.
  const [asked, setAsked] = useState<{
    readonly view: string;
    readonly audience: string | null;
    readonly days: number;
    readonly save: () => Promise<Afterwards>;
  } | null>(null);
  const change = useChangeSearch();
  const invalidate = useInvalidate();
  const hasAudience = view !== "api_key_usage";
  const named = hasAudience && audience !== "" ? audience : null;
  const wanted = forGood ? 0 : Number(days);
  const problems = {
    days:
      forGood || (/^\d{1,6}$/.test(days) && wanted >= 1 && wanted <= mostDays)
        ? null
        : `days must be a whole number from 1 to ${mostDays}`,
    audience: named === null ? null : textProblem("audience", named, textRules.audience),
  };
  const save = async (): Promise<Afterwards> => {
    await call("api/retention", {
      method: "PUT",
      body: { view, days: wanted, ...(named === null ? {} : { audience: named }) },
    });
    await invalidate("retention");
    setAsked(null);
    // What was typed while it was sent is not saved.
    setTyped((now) => (now === typed ? {} : now));
    toast(`${viewWords(view)} of ${audienceWords(named)} are kept ${forWords(wanted)}`);
    return () => change({ new: undefined, open: `${view}/${named ?? "*"}` });
  };
  const { form, problem } = useCheckedForm(problems, async () => {
    const now = await rules.readDays(view, named);
    if (removesMore(now, wanted === 0 ? null : wanted)) {
      setAsked({ view, audience: named, days: wanted, save });
      return undefined;
    }
    return await save();
  });
  const confirm = useTask(async () => asked?.save());
  return (
    <>
      <Form
        label={row === undefined ? "Add an override" : "Change the override"}
        submit="Save"
        onCancel={onCancel}
        {...form}
        busy={form.busy || confirm.busy}
        error={asked === null ? (form.error ?? confirm.error) : null}
      >
        {row === undefined ? (
          <>
            <SelectField label="Rows" options={views} value={view} onChange={setView} />
            {hasAudience ? (
              <AudienceField
                hint="Empty: every audience without an override of its own. Rows without an audience are kept as those of SVC_UNSTAMPED_AUDIENCE."
                value={audience}
                onChange={({ target }) => setAudience(target.value)}
                problem={problem("audience")}
              />
            ) : (
              <p className={css.muted}>The use of keys goes by whole months, when the month is past.</p>
            )}
          </>
        ) : null}
        <Checkbox
          label="Keep them for good"
          checked={forGood}
          onChange={({ target }) => setTyped({ ...typed, forGood: target.checked })}
        />
        <TextField
          label="Days"
          hint="After rows were received"
          inputMode="numeric"
          disabled={forGood}
          value={days}
          onChange={({ target }) => setTyped({ ...typed, days: target.value.trim() })}
          problem={problem("days")}
        />
      </Form>
      <ConfirmDialog
        open={asked !== null}
        title={
          asked === null
            ? ""
            : `Keep ${viewWords(asked.view).toLowerCase()} of ${audienceWords(asked.audience)} for ${keptWords(asked.days)} only?`
        }
        confirm="Save, and remove what is older"
        task={confirm}
        onClose={() => setAsked(null)}
      >
        {asked === null ? null : (
          <p>
            Now they are kept {forWords(daysKept(rules.overrides, rules.standard, asked.view, asked.audience))}.{" "}
            {removedWords(asked.days)}
          </p>
        )}
      </ConfirmDialog>
    </>
  );
}

const forWords = (days: number | null): string => `${days === null || days === 0 ? "" : "for "}${keptWords(days)}`;

function removedWords(days: number): string {
  const before = formatTime(serverNow() - days * 86_400_000, { digits: 0 });
  return `Within minutes the rows go that were received before ${before}. They cannot be brought back.`;
}
