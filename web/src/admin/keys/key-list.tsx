/** What the lists of both kinds of keys share. */
import { type ComponentType, type ReactElement, type ReactNode } from "react";

import { call } from "../../api/call.js";
import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { CopyButton, Select } from "../../ui/controls/controls.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import type { AnalyticsKey } from "../../api/wire.js";
import { useInvalidate, useList } from "../api.js";
import { ConfirmButton } from "../form.js";
import { Facts, ListPage, type ListPageProps, textColumn, timeColumn, timeText } from "../list-page.js";
import { type KeyKind, useKeyBanners } from "./key-banner.js";
import type { MintFormProps } from "./mint-form.js";

const idOf = (key: AnalyticsKey): string => key.key_id;

/** All keys of a kind: a list, a form that mints, and a panel of each. */
export function KeyList<K extends AnalyticsKey>(o: {
  readonly kind: KeyKind;
  /** Of the request for the list. */
  readonly query?: Readonly<Record<string, boolean>>;
  readonly intro: string;
  readonly icon: ReactElement;
  readonly emptyText: string;
  readonly columns: ListPageProps<K>["columns"];
  readonly Mint: ComponentType<MintFormProps>;
  readonly details: (row: K) => KeyDetailsProps;
}): ReactElement {
  const { kind, Mint } = o;
  const query = useList<K>([`${kind}-keys`], `api/${kind}-api-keys`, o.query === undefined ? {} : { query: o.query });
  const { filter, keep } = useKeyFilter();
  const { banners, show } = useKeyBanners();
  return (
    <ListPage
      noun={`${kind} keys`}
      intro={o.intro}
      query={query}
      idOf={idOf}
      columns={o.columns}
      keep={keep}
      filters={filter}
      showAll="all"
      notes={banners}
      empty={{ icon: o.icon, title: `No ${kind} key yet`, text: o.emptyText }}
      add={{
        label: "Mint a key",
        title: `Mint an ${kind} key`,
        form: (close) => (
          <Mint
            onCancel={close}
            onMinted={(key) => {
              show(key);
              close();
            }}
          />
        ),
      }}
      panel={(row) => ({
        title: row.name,
        body: <KeyDetails key={row.key_id} row={row} kind={kind} {...o.details(row)} />,
      })}
    />
  );
}

/** Which keys are shown, as in the address: `show=revoked`, `show=all`; else those that work. */
function useKeyFilter(): { readonly filter: ReactElement; readonly keep: (key: AnalyticsKey) => boolean } {
  const show = textOf(useSearchParameters()["show"]) ?? "live";
  const change = useChangeSearch();
  const known = ["live", "revoked", "all"].includes(show) ? show : "live";
  return {
    filter: (
      <Select
        label="Which keys"
        value={known}
        options={[
          { value: "live", label: "Live keys" },
          { value: "revoked", label: "Revoked keys" },
          { value: "all", label: "All keys" },
        ]}
        onChange={(next) => change({ show: next === "live" ? undefined : next })}
      />
    ),
    keep: keeps[known] ?? keepLive,
  };
}

const keepLive = (key: AnalyticsKey): boolean => key.revoked_at === null;
const keeps: Readonly<Record<string, (key: AnalyticsKey) => boolean>> = {
  live: keepLive,
  revoked: (key) => key.revoked_at !== null,
  all: () => true,
};

/** @param more columns after the name */
export function keyColumns(
  rows: readonly AnalyticsKey[],
  more: readonly TableColumn[] = [],
  last: readonly TableColumn[] = [],
): readonly TableColumn[] {
  return [
    textColumn(rows, "name", "Name", (key) => key.name, { width: 210 }),
    ...more,
    timeColumn(rows, "last_used_at", "Last used", (key) => key.last_used_at, { age: true }),
    ...last,
    timeColumn(rows, "created_at", "Minted", (key) => key.created_at),
    textColumn(rows, "created_by", "By", (key) => key.created_by),
    timeColumn(rows, "revoked_at", "Revoked", (key) => key.revoked_at),
    textColumn(rows, "key_id", "Key id", (key) => key.key_id, { mono: true, width: 290 }),
  ];
}

interface KeyDetailsProps {
  readonly facts?: readonly (readonly [string, ReactNode])[];
  /** What happens to those who use it when it is revoked. */
  readonly consequence: string;
  readonly children?: ReactNode;
}

/** A key in its panel. */
function KeyDetails({
  row,
  kind,
  facts = [],
  consequence,
  children,
}: KeyDetailsProps & { readonly row: AnalyticsKey; readonly kind: KeyKind }): ReactElement {
  const invalidate = useInvalidate();
  return (
    <>
      <Facts
        facts={[
          ...facts,
          ["Last used", timeText(row.last_used_at)],
          ["Minted", `${timeText(row.created_at)} by ${row.created_by}`],
          ...(row.revoked_at === null
            ? []
            : ([["Revoked", `${timeText(row.revoked_at)} by ${row.revoked_by ?? "nobody known"}`]] as const)),
          [
            "Key id",
            <span key="id" className={css.inline}>
              <code>{row.key_id}</code>
              <CopyButton text={row.key_id} label="Copy the key id" />
            </span>,
          ],
        ]}
      />
      {children}
      {row.revoked_at === null ? (
        <div className={css.actions}>
          <ConfirmButton
            label="Revoke…"
            title={`Revoke the key “${row.name}”?`}
            confirm={`Revoke “${row.name}”`}
            done={`The key “${row.name}” is revoked`}
            onConfirm={async () => {
              await call(`api/${kind}-api-keys/${encodeURIComponent(row.key_id)}`, { method: "DELETE" });
              await invalidate(`${kind}-keys`, "grants");
            }}
          >
            <p>{consequence} It cannot be taken back.</p>
            <p>
              Last used: {timeText(row.last_used_at)}. Key id: <code>{row.key_id}</code>
            </p>
          </ConfirmButton>
        </div>
      ) : null}
    </>
  );
}
