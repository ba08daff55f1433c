/** Everything that can be administered, by what somebody may do. */
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { useMyAudiences } from "../../api/routes.js";
import { usePerson } from "../../api/session.js";
import { pages } from "../../app/pages.js";
import { Banner } from "../../ui/states.js";
import admin from "../admin.module.css";
import css from "./admin-page.module.css";
import { sections } from "./cards.js";

export default function AdminPage(): ReactElement {
  const { isAdmin } = usePerson();
  const { data } = useMyAudiences();
  const shown = sections
    .map(({ title, cards }) => ({
      title,
      cards: cards.flatMap(([path, text]) => {
        const page = pages.find((each) => each.path === path);
        return page === undefined || (page.adminOnly === true && !isAdmin) ? [] : [{ page, text }];
      }),
    }))
    .filter(({ cards }) => cards.length > 0);
  return (
    <div className={admin.wide}>
      {data?.admins_open === true ? (
        <Banner kind="warn" title="Everybody is an administrator">
          <p>
            The group admins holds *, which is everybody who logs in. Add the administrators to{" "}
            <Link to="/admin/groups" search={{ open: "admins" }}>
              the group admins
            </Link>{" "}
            and take * out.
          </p>
        </Banner>
      ) : null}
      {isAdmin ? null : (
        <p className={admin.intro}>You are no administrator. This is what you can look after yourself.</p>
      )}
      {shown.map(({ title, cards }) => (
        <section key={title} className={admin.section} aria-labelledby={`hub-${title}`}>
          <h2 id={`hub-${title}`}>{title}</h2>
          <ul className={css.cards}>
            {cards.map(({ page, text }) => {
              const Icon = page.navigation?.icon;
              return (
                <li key={page.path}>
                  <Link to={page.path} className={css.card}>
                    {Icon === undefined ? null : <Icon aria-hidden />}
                    <span>
                      <strong>{page.title}</strong>
                      <span className={css.text}>{text}</span>
                    </span>
                  </Link>
                </li>
              );
            })}
          </ul>
        </section>
      ))}
    </div>
  );
}
