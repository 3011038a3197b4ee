// No dialog, no page of news and no account wizard at the first start; nothing is looked up outside.
pref("app.donation.eoy.version.viewed", 999);
pref("app.update.enabled", false);
pref("browser.aboutwelcome.enabled", false);
pref("datareporting.policy.dataSubmissionPolicyBypassNotification", true);
pref("datareporting.healthreport.uploadEnabled", false);
pref("mail.provider.suppress_dialog_on_startup", true);
pref("mail.rights.version", 1);
pref("mail.shell.checkDefaultClient", false);
pref("mail.spotlight.firstRunDone", true);
pref("mail.spam.version", 1);
pref("mail.winsearch.firstRunDone", true);
pref("mailnews.start_page.enabled", false);
pref("mailnews.start_page_override.mstone", "ignore");
pref("toolkit.telemetry.enabled", false);
