"""Selenium drives a leased browser, through the DevTools port of the lease; it needs chromedriver."""

from selenium import webdriver
from selenium.webdriver.common.by import By

import guiagent

PAGE = """data:text/html,<title>a form</title><form onsubmit="document.title = name.value; return false">
<input name=name><button>Send</button></form>"""

with (
    guiagent.connect(devices=["browser=1@800x600,cdp"]) as farm,
    farm.lease("browser", needs=["cdp"], grants=["exec"]) as device,
    device.forward("cdp") as port,
):
    options = webdriver.ChromeOptions()
    options.debugger_address = f"127.0.0.1:{port}"
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.get(PAGE)
    driver.find_element(By.TAG_NAME, "input").send_keys("written by Selenium")
    driver.find_element(By.TAG_NAME, "button").click()
    print("the farm sees:", device.observe(page=True).title)

    driver.switch_to.new_window("tab")
    driver.get("data:text/html,<title>a second tab</title>")
    print("in its own tab:", driver.title, "of", len(driver.window_handles))
    driver.quit()
